// One URL: its health, its history, what it holds back, and what can be done.

import { address } from './address.js';
import { pathOf } from './api.js';
import { clock } from './clock.js';
import { deliveryColumns } from './deliveries.js';
import { confirm, reasonField } from './dialog.js';
import { h, put, s } from './dom.js';
import { hasParameter } from './features.js';
import { bounded, countdown, duration, number, plural } from './format.js';
import { MIN_WINDOW_ATTEMPTS, failureRate, silence, trouble } from './health.js';
import { announce, empty, failure, loading } from './notice.js';
import { progress, startReplay } from './replays.js';
import { pill, toneOf } from './state.js';
import { listOf, pagedTable } from './table.js';
import { since, when } from './when.js';

const REFRESH_MS = 5000;
const LATEST_CHANGES = 4;
const LISTS = { parked: 'Parked', dead: 'Dead', waiting: 'Waiting', delivered: 'Delivered' };

export async function urlPage(view) {
  const id = view.segments[1];
  const path = pathOf('urls', id);
  view.show({ title: 'URL', heading: 'URL' }, loading('the URL'));
  let url = await view.get(path);
  const facts = h('div', {});
  const actions = h('div', { class: 'actions' });
  const jobs = h('div', { class: 'jobs' });
  const history = h('section', { class: 'card', 'aria-label': 'History' });
  view.show(
    { title: url.url, kicker: 'URL', heading: address(url.url), actions: [actions] },
    facts,
    jobs,
    history,
    lists(view, id),
    subscriptions(view, url),
  );

  function draw() {
    put(facts, summary(view, url));
    put(history, historyOf(url));
    put(actions, buttons());
  }

  async function refresh() {
    try {
      url = await view.get(path);
      // A button that has the focus is not replaced under the operator's hands.
      if (!actions.contains(document.activeElement)) put(actions, buttons());
      put(facts, summary(view, url));
      put(history, historyOf(url));
    } catch (error) {
      if (!view.signal.aborted && error.status !== 429) put(facts, failure(error, refresh));
    }
  }

  function buttons() {
    const button = (text, act, tone = '') => h('button', { type: 'button', class: tone, onclick: act }, text);
    return [
      button(url.state === 'enabled' ? 'Enable again' : 'Enable', () => change('enable'), url.state === 'enabled' ? '' : 'primary'),
      url.state === 'enabled' && button('Disable', () => change('disable')),
      url.state !== 'frozen' && button('Freeze', () => change('freeze')),
      button('Replay…', replay),
    ];
  }

  async function change(action) {
    const changed = await confirm({
      ...TEXTS[action](url),
      tone: action === 'enable' ? '' : 'danger',
      fields: [reasonField(), action === 'enable' && replayExpired()],
      act: (form) =>
        view.send('POST', `${path}/${action}`, {
          reason: form.get('reason') || undefined,
          ...(form.get('replay_expired') ? { replay_expired: true } : {}),
        }),
    });
    if (!changed) return;
    announce(
      action === 'enable'
        ? `Enabled. ${plural(changed.released, 'parked delivery is', 'parked deliveries are')} released${changed.expired ? `; ${number(changed.expired)} had expired` : ''}.`
        : `The URL is ${changed.state}.`,
    );
    if (changed.replay) follow(changed.replay, 'expired deliveries');
    url = await view.get(path);
    draw();
    actions.querySelector('button')?.focus();
  }

  async function replay() {
    const started = await startReplay(view, id, url.url);
    if (started) follow(started.id);
  }

  function follow(job) {
    jobs.append(progress(view, job));
  }

  draw();
  view.repeat(REFRESH_MS, refresh);
}

const TEXTS = {
  enable: (url) => ({
    title: 'Enable this URL?',
    action: 'Enable',
    text: h(
      'p',
      {},
      `Its counters are reset and ${url.parked ? plural(url.parked, 'parked delivery is', 'parked deliveries are') : 'parked deliveries, if there are any, are'} released slowly: 1, 2, 4, … every 5 seconds, slower if the receiver struggles.`,
    ),
  }),
  disable: () => ({
    title: 'Disable this URL?',
    action: 'Disable',
    text: h(
      'p',
      {},
      'Deliveries are parked when they come due. One is sent as a probe every 10 minutes, and a success enables the URL again. To stop all attempts, freeze it.',
    ),
  }),
  freeze: () => ({
    title: 'Freeze this URL?',
    action: 'Freeze',
    text: h(
      'p',
      {},
      'Nothing is attempted until someone enables the URL, however long that takes. Deliveries are parked, and are dead 52 hours after their first attempt; they can be replayed.',
    ),
  }),
};

function replayExpired() {
  return h(
    'label',
    { class: 'check' },
    h('input', { type: 'checkbox', name: 'replay_expired', value: 'true' }),
    'Also replay deliveries that expired while they were parked',
  );
}

function summary(view, url) {
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

function lists(view, id) {
  let shown = LISTS[view.query.get('list')] ? view.query.get('list') : 'parked';
  const box = h('div', {});
  const tabs = h(
    'div',
    { class: 'segments', role: 'group', 'aria-label': 'Which deliveries' },
    Object.entries(LISTS).map(([name, text]) =>
      h('button', { type: 'button', 'aria-pressed': String(name === shown), onclick: (event) => choose(name, event.currentTarget) }, text),
    ),
  );
  const draw = () =>
    put(
      box,
      pagedTable({
        view,
        caption: `${LISTS[shown]} deliveries of this URL`,
        columns: deliveryColumns(view, { withUrl: false }),
        sources: [listOf(view, '/v1/deliveries', { url: id, state: shown })],
        pageSize: 10,
        empty: [
          `No ${shown} deliveries`,
          {
            parked: 'Nothing is held back.',
            dead: 'Nothing was given up.',
            waiting: 'Nothing waits for a retry.',
            delivered: 'Nothing has arrived yet, or the log of deliveries is off.',
          }[shown],
        ],
      }).element,
    );
  function choose(name, button) {
    shown = name;
    for (const each of tabs.children) each.setAttribute('aria-pressed', String(each === button));
    view.remember({ list: name });
    draw();
  }
  draw();
  return h('section', { 'aria-label': 'Deliveries' }, h('div', { class: 'section-head' }, h('h2', {}, 'Deliveries'), tabs), box);
}

function historyOf(url) {
  const changes = url.history ?? [];
  return [
    h('h2', {}, 'History'),
    changes.length === 0
      ? empty('It has never changed its state', 'Changes by Holdfast and by people are listed here with their reason.')
      : [
          strip(changes, url),
          changeList(changes.slice(0, LATEST_CHANGES)),
          changes.length > LATEST_CHANGES &&
            h(
              'details',
              {},
              h('summary', {}, `${plural(changes.length - LATEST_CHANGES, 'earlier change')}`),
              changeList(changes.slice(LATEST_CHANGES)),
            ),
        ],
  ];
}

function changeList(changes) {
  return h(
    'ol',
    { class: 'history' },
    changes.map((change) =>
      h(
        'li',
        { class: toneOf(change.to) },
        h('span', { class: 'history-dot', 'aria-hidden': 'true' }),
        h(
          'div',
          {},
          h('span', { class: 'history-what' }, pill(change.to), h('span', { class: 'muted' }, ` from ${change.from}`)),
          h('p', {}, change.why || 'no reason given'),
          h('p', { class: 'muted' }, when(change.at), ` · by ${change.by}`),
        ),
      ),
    ),
  );
}

/** The states over time as one strip, oldest left. */
function strip(changes, url) {
  const oldest = [...changes].reverse();
  const from = Date.parse(oldest[0].at);
  const end = clock.now();
  const span = Math.max(1, end - from);
  const lead = span * 0.08;
  const x = (time) => ((time - from + lead) / (span + lead)) * 1000;
  const parts = [
    { state: oldest[0].from, from: from - lead, to: from },
    ...oldest.map((change, index) => ({
      state: change.to,
      from: Date.parse(change.at),
      to: index + 1 < oldest.length ? Date.parse(oldest[index + 1].at) : end,
    })),
  ];
  return s(
    'svg',
    {
      class: 'strip',
      viewBox: '0 0 1000 12',
      preserveAspectRatio: 'none',
      role: 'img',
      'aria-label': `States over time: ${parts.map(({ state }) => state).join(', then ')}, since ${url.since}`,
    },
    parts.map((part) =>
      s(
        'rect',
        { class: `mark ${toneOf(part.state)}`, x: x(part.from), width: Math.max(3, x(part.to) - x(part.from)), height: 12 },
        s('title', {}, part.state),
      ),
    ),
  );
}

function subscriptions(view, url) {
  if (!hasParameter('/v1/subscriptions', 'url')) return null;
  const columns = [
    {
      name: 'Subscription',
      wide: true,
      cell: (each) => h('a', { href: view.href(['subscriptions', each.id], each) }, each.description || each.id),
    },
    { name: 'Event types', cell: (each) => each.event_types.join(', ') },
    { name: 'State', cell: (each) => pill(each.active ? 'active' : 'inactive') },
  ];
  return h(
    'section',
    { 'aria-label': 'Subscriptions' },
    h('div', { class: 'section-head' }, h('h2', {}, 'Subscriptions with this URL')),
    pagedTable({
      view,
      caption: 'Subscriptions with this URL',
      columns,
      sources: [listOf(view, '/v1/subscriptions', { url: url.url })],
      empty: ['No subscription uses this URL', 'Its deliveries are kept until they are removed by age.'],
    }).element,
  );
}
