// Replays: start one for a URL, follow its progress, list those before.

import { pathOf } from './api.js';
import { confirm, field } from './dialog.js';
import { h, put } from './dom.js';
import { duration, number, percent, shortId } from './format.js';
import { announce, failure, loading } from './notice.js';
import { pill } from './state.js';
import { listOf, pagedTable } from './table.js';
import { urlName } from './url_names.js';
import { sinceNow, when } from './when.js';

const REFRESH_MS = 1500;

/** Asks what to replay, and starts it. Resolves to the answer, or to undefined if the operator cancelled. */
export async function startReplay(view, urlId) {
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
    announce(
      started.matched > 0
        ? `The replay has started: ${number(started.matched)}${started.more ? ' or more' : ''} deliveries.`
        : 'The replay has started.',
    );
  }
  return started;
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
    replay.url_id && ['URL', h('a', { href: view.href(['urls', replay.url_id], replay) }, urlName(view, replay))],
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
  const columns = [
    { name: 'State', cell: (replay) => pill(replay.state) },
    { name: 'Replay', wide: true, cell: (replay) => what(view, replay) },
    {
      name: 'Replayed',
      align: 'number',
      cell: (replay) => [
        `${number(replay.done)} of ${number(Math.max(replay.matched, replay.done + replay.skipped))}${replay.more ? '+' : ''}`,
        replay.skipped > 0 && h('span', { class: 'below' }, `${number(replay.skipped)} skipped`),
      ],
    },
    { name: 'Started', align: 'number', cell: (replay) => sinceNow(replay.created_at) },
    { name: 'Took', align: 'number', cell: (replay) => (replay.ended_at ? duration(Date.parse(replay.ended_at) - Date.parse(replay.created_at)) : '–') },
  ];
  view.show(
    { title: 'Replays', lead: 'Deliveries that were sent again, by hand or by a program.' },
    pagedTable({
      view,
      caption: 'Replays, newest first',
      columns,
      sources: [listOf(view, '/v1/replays')],
      empty: ['No replays yet', 'Start one on the page of a URL, or for a single delivery.'],
    }),
  );
}

function what(view, replay) {
  const link = (inside) => h('a', { class: 'address-link', href: view.href(['replays', replay.id], replay) }, inside);
  const tenant = replay.tenant && h('span', { class: 'tag' }, replay.tenant);
  if (!replay.url_id) return [link(h('code', {}, shortId(replay.delivery_id))), tenant, h('span', { class: 'below' }, 'one delivery')];
  return [link(urlName(view, replay)), tenant, h('span', { class: 'below' }, `${replay.states.join(' and ')} deliveries`)];
}
