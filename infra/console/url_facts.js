// The health of a URL in figures, each beside the threshold that it counts towards.

import { clock } from './clock.js';
import { h } from './dom.js';
import { bounded, countdown, duration, number } from './format.js';
import { MIN_WINDOW_ATTEMPTS, failureRate, silence, trouble } from './health.js';
import { pill, toneOf } from './state.js';
import { since, when } from './when.js';

export function factsOf(view, url) {
  const counted = (value, more) => (typeof value === 'object' && value !== null ? bounded(value) : `${number(value)}${more ? '+' : ''}`);
  const facts = [
    ['State', [pill(url.state), h('span', { class: 'below' }, since(view, url.since))]],
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
      [h('span', { class: 'figure' }, counted(url.waiting)), h('span', { class: 'below' }, 'due later')],
    ],
    url.latency_ms && [
      'Latency',
      [
        h('span', { class: 'figure' }, duration(url.latency_ms.p50 ?? url.latency_ms.average ?? url.latency_ms)),
        h('span', { class: 'below' }, 'of recent attempts'),
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
    why && url.state === 'enabled' && h('p', { class: 'verdict bad' }, 'Failing: ', why),
    h(
      'dl',
      { class: 'facts' },
      facts.map(([name, value]) => h('div', { class: 'card fact' }, h('dt', {}, name), h('dd', {}, value))),
    ),
  ];
}
