// The health of a URL in figures, each beside the threshold that it counts towards.

import { clock } from './clock.js';
import { h } from './dom.js';
import { bounded, countdown, duration, number, until } from './format.js';
import { MIN_WINDOW_ATTEMPTS, failureRate, silence, trouble } from './health.js';
import { pill, toneOf } from './state.js';
import { since, when } from './when.js';

/** How much of it is at stake, and for how long. */
function held(view, url) {
  const waiting = url.waiting + url.parked;
  if (!waiting) return null;
  const more = url.waiting_more || url.parked_more;
  return h(
    'span',
    { class: 'because' },
    `${number(waiting)}${more ? ' or more' : ''} ${waiting === 1 ? 'delivery waits' : 'deliveries wait'}`,
    url.oldest_expiry && ['; the first expires ', view.ticking((now) => until(url.oldest_expiry, now))],
    '.',
  );
}

export function factsOf(view, url) {
  const counted = (value, more) => (typeof value === 'object' && value !== null ? bounded(value) : `${number(value)}${more ? '+' : ''}`);
  const facts = [
    [
      'State',
      url.state === 'enabled' && url.failing
        ? [pill('failing'), h('span', { class: 'below' }, 'enabled ', since(view, url.since))]
        : [pill(url.state), h('span', { class: 'below' }, since(view, url.since))],
    ],
    [
      'Failure rate',
      [
        failureRate(url),
        h(
          'span',
          { class: 'below' },
          url.window_attempts > MIN_WINDOW_ATTEMPTS
            ? 'disabled above the line at 70 %'
            : `counts from ${MIN_WINDOW_ATTEMPTS + 1} attempts on`,
        ),
      ],
    ],
    ['Last success', [silence(url), h('span', { class: 'below' }, 'the line is at 72 hours')]],
    ['Failures in a row', [h('span', { class: 'figure' }, number(url.streak)), h('span', { class: 'below' }, 'disabled at 2,000')]],
    url.state === 'disabled' && [
      'Next probe',
      [
        h('span', { class: 'figure' }, url.next_probe_at ? view.ticking((now) => countdown(url.next_probe_at, now)) : '–'),
        h('span', { class: 'below' }, 'one delivery every 10 minutes'),
      ],
    ],
    [
      'Parked',
      [
        h('span', { class: 'figure' }, counted(url.parked, url.parked_more)),
        h('span', { class: 'below' }, url.releasing ? 'being released' : 'held back'),
      ],
    ],
    url.waiting !== undefined && [
      'Waiting',
      [h('span', { class: 'figure' }, counted(url.waiting, url.waiting_more)), h('span', { class: 'below' }, 'due later')],
    ],
    typeof url.recent_ms === 'number' && [
      'Latency',
      [h('span', { class: 'figure' }, duration(url.recent_ms)), h('span', { class: 'below' }, 'of recent attempts')],
    ],
    typeof url.subscriptions === 'number' && [
      'Subscriptions',
      [h('span', { class: 'figure' }, number(url.subscriptions)), h('span', { class: 'below' }, 'have this URL')],
    ],
    url.oldest_expiry && [
      'First to expire',
      [
        h(
          'span',
          { class: 'figure' },
          view.ticking((now) => countdown(url.oldest_expiry, now)),
        ),
        h('span', { class: 'below' }, 'of what waits or is parked'),
      ],
    ],
    url.failing_since && [
      'Failing for',
      [
        h('span', { class: 'figure' }, duration(clock.now() - Date.parse(url.failing_since))),
        h('span', { class: 'below' }, when(url.failing_since)),
      ],
    ],
  ].filter(Boolean);
  const why = trouble(url);
  return [
    why &&
      url.state !== 'enabled' &&
      h(
        'p',
        { class: `verdict ${toneOf(url.state)}` },
        `${url.state === 'frozen' ? 'Frozen' : 'Disabled'}: `,
        url.reason,
        url.last_error && [' · last error: ', why],
      ),
    why && url.state === 'enabled' && h('p', { class: 'verdict bad' }, 'Failing: ', why, held(view, url)),
    h(
      'dl',
      { class: 'facts' },
      facts.map(([name, value]) => h('div', { class: 'card fact' }, h('dt', {}, name), h('dd', {}, value))),
    ),
  ];
}
