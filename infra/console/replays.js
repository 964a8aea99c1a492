// Replays: start one for a URL, follow its progress, list those before.

import { pathOf } from './api.js';
import { confirm, field } from './dialog.js';
import { h, put } from './dom.js';
import { hasCall } from './features.js';
import { number, percent } from './format.js';
import { announce, empty, failure, loading } from './notice.js';
import { session } from './session.js';
import { pill } from './state.js';
import { listOf, pagedTable, row, table } from './table.js';
import { sinceNow, when } from './when.js';

const REFRESH_MS = 1500;

/** Asks what to replay, and starts it. Resolves to the answer, or to undefined if the operator cancelled. */
export async function startReplay(view, urlId, what) {
  const since = h('input', { type: 'datetime-local', name: 'since' });
  const until = h('input', { type: 'datetime-local', name: 'until' });
  const choice = (state, text, checked) =>
    h('label', { class: 'check' }, h('input', { type: 'checkbox', name: 'states', value: state, checked }), text);
  const started = await confirm({
    title: 'Replay deliveries of this URL',
    action: 'Start the replay',
    text: h(
      'p',
      {},
      'Each gets a new schedule, oldest first, at a pace that does not overload the receiver. Waiting and parked deliveries are left alone.',
    ),
    fields: [
      h(
        'fieldset',
        {},
        h('legend', {}, 'Which'),
        choice('dead', 'Dead: given up or expired', true),
        choice('delivered', 'Delivered: send them once more', false),
      ),
      h('div', { class: 'two' }, field('Accepted from', since, 'Optional'), field('Accepted until', until, 'Optional')),
    ],
    act: (form) => {
      const time = (name) => (form.get(name) ? new Date(form.get(name)).toISOString() : undefined);
      return view.send('POST', `${pathOf('urls', urlId)}/replay`, {
        states: form.getAll('states'),
        since: time('since'),
        until: time('until'),
      });
    },
  });
  if (started) {
    remember(view, started.id, what);
    announce(
      started.matched > 0
        ? `The replay has started: ${number(started.matched)}${started.more ? ' or more' : ''} deliveries.`
        : 'The replay has started.',
    );
  }
  return started;
}

/** Servers without a list of replays leave it to the tab to know its own. */
export function remember(view, id, what) {
  session.addReplay({ id, tenant: view.tenant, what });
}

/** A progress bar that follows one replay until it is done. */
export function progress(view, id) {
  const box = h('div', { class: 'card job' }, loading('the replay', 1));
  const follow = async () => {
    if (view.signal.aborted) return;
    try {
      const replay = await view.get(pathOf('replays', id));
      put(box, progressOf(view, replay));
      if (replay.state !== 'done') setTimeout(follow, REFRESH_MS);
    } catch (error) {
      if (!view.signal.aborted) put(box, failure(error, follow));
    }
  };
  follow();
  return box;
}

function progressOf(view, replay) {
  const handled = replay.done + replay.skipped;
  const all = Math.max(replay.matched, handled);
  const label = `${number(replay.done)} replayed${replay.skipped ? `, ${number(replay.skipped)} skipped` : ''}, of ${number(all)}${replay.more ? ' or more' : ''}`;
  const ended = replay.state === 'done';
  return [
    h(
      'div',
      { class: 'job-head' },
      h('a', { href: view.href(['replays', replay.id]) }, 'Replay'),
      pill(replay.state),
      h('span', { class: 'muted' }, label),
      h('span', { class: 'job-share' }, ended ? '100 %' : percent(handled, all)),
    ),
    // Without anything to do, a finished bar is full.
    h('progress', { max: String(all || 1), value: String(ended ? all || 1 : handled), 'aria-label': `Replay: ${label}` }),
  ];
}

export async function replayPage(view) {
  const id = view.segments[1];
  view.show({ title: 'Replay' }, loading('the replay'));
  const replay = await view.get(pathOf('replays', id));
  const facts = [
    replay.url_id && ['URL', h('a', { href: view.href(['urls', replay.url_id], replay) }, replay.url ?? replay.url_id)],
    replay.delivery_id && ['Delivery', h('a', { href: view.href(['deliveries', replay.delivery_id], replay) }, replay.delivery_id)],
    replay.states.length > 0 && ['States', replay.states.join(', ')],
    replay.since && ['Accepted from', when(replay.since)],
    replay.until && ['Accepted until', when(replay.until)],
    ['Started', when(replay.created_at)],
    ['Id', h('code', {}, replay.id)],
  ].filter(Boolean);
  view.show(
    { title: 'Replay', lead: 'Deliveries are replayed at the pace at which parked ones are released.' },
    progress(view, id),
    h(
      'dl',
      { class: 'card rows' },
      facts.map(([name, value]) => h('div', {}, h('dt', {}, name), h('dd', {}, value))),
    ),
  );
}

export function replaysPage(view) {
  const lead = 'Deliveries that were sent again, by hand.';
  if (hasCall('get', '/v1/replays')) {
    const columns = [
      { name: 'State', cell: (replay) => pill(replay.state) },
      {
        name: 'Replay',
        wide: true,
        cell: (replay) =>
          h('a', { href: view.href(['replays', replay.id], replay) }, replay.url ?? replay.url_id ?? replay.delivery_id ?? replay.id),
      },
      {
        name: 'Replayed',
        align: 'number',
        cell: (replay) =>
          `${number(replay.done)} of ${number(Math.max(replay.matched, replay.done + replay.skipped))}${replay.more ? '+' : ''}`,
      },
      { name: 'Started', align: 'number', cell: (replay) => sinceNow(replay.created_at) },
    ];
    view.show(
      { title: 'Replays', lead },
      pagedTable({
        view,
        caption: 'Replays, newest first',
        columns,
        sources: [listOf(view, '/v1/replays')],
        empty: ['No replays yet', 'Start one on the page of a URL, or for a single delivery.'],
      }),
    );
    return;
  }
  const own = session.replays;
  const columns = [
    { name: 'Replay', wide: true, cell: (replay) => h('a', { href: view.href(['replays', replay.id], replay) }, replay.what || replay.id) },
    { name: 'Id', cell: (replay) => h('code', {}, replay.id) },
  ];
  view.show(
    { title: 'Replays', lead: `${lead} Started in this tab; a newer server lists all.` },
    own.length > 0
      ? h(
          'div',
          { class: 'list' },
          table({ caption: 'Replays that were started in this tab', columns, rows: own.map((replay) => row(columns, replay)) }),
        )
      : empty('No replays in this tab', 'Start one on the page of a URL, or for a single delivery.'),
  );
}
