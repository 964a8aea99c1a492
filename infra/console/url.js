// One URL: its health, its history, what it holds back, and what can be done.

import { address } from './address.js';
import { pathOf } from './api.js';
import { deliveryColumns } from './deliveries.js';
import { confirm, reasonField } from './dialog.js';
import { h, put } from './dom.js';
import { number, plural } from './format.js';
import { announce, failure, loading } from './notice.js';
import { progress, startReplay } from './replays.js';
import { pill } from './state.js';
import { listOf, pagedTable } from './table.js';
import { factsOf } from './url_facts.js';
import { historyOf } from './url_history.js';

const REFRESH_MS = 5000;
const LISTS = { parked: 'Parked', dead: 'Dead', waiting: 'Waiting', delivered: 'Delivered' };

export async function urlPage(view) {
  const id = view.segments[1];
  const path = pathOf('urls', id);
  view.show({ title: 'URL', heading: 'URL' }, loading('the URL'));
  let url = await view.get(path);
  let drawn = null;
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
    put(facts, factsOf(view, url));
    drawHistory();
    put(actions, buttons());
  }

  /** Only when it changed, so that what the operator unfolded stays so. */
  function drawHistory() {
    drawn = url.generation;
    put(history, historyOf(url));
  }

  async function refresh() {
    try {
      url = await view.get(path);
      // A button that has the focus is not replaced under the operator's hands.
      if (!actions.contains(document.activeElement)) put(actions, buttons());
      put(facts, factsOf(view, url));
      if (url.generation !== drawn) drawHistory();
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
    const started = await startReplay(view, id);
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
      }),
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

function subscriptions(view, url) {
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
    }),
  );
}
