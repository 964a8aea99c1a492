// URLs by trouble: which, why, since when, and how close to the thresholds.

import { address } from './address.js';
import { h, put } from './dom.js';
import { countdown, duration } from './format.js';
import { failureRate, silence, trouble } from './health.js';
import { pill } from './state.js';
import { listOf, pagedTable } from './table.js';
import { sinceNow } from './when.js';

/** How URLs in trouble are ordered: by their state, or as the API sorts them. */
const ORDERS = {
  state: ['By state, frozen first', null],
  longest: ['Failing longest first', { sort: 'failing_since', order: 'asc' }],
  newest: ['Failing shortest first', { sort: 'failing_since', order: 'desc' }],
  latest: ['Latest failure first', { sort: 'last_failure_at', order: 'desc' }],
};
const SHOWN = { trouble: 'In trouble', frozen: 'Frozen', disabled: 'Disabled', enabled: 'Enabled', all: 'All' };

export function urlsPage(view) {
  let shown = SHOWN[view.query.get('show')] ? view.query.get('show') : 'trouble';
  let order = ORDERS[view.query.get('order')] ? view.query.get('order') : 'state';
  const list = h('div', {});
  const orders = h(
    'select',
    {
      'aria-label': 'Order',
      onchange: () => {
        order = orders.value;
        view.remember({ show: shown, order });
        draw();
      },
    },
    Object.entries(ORDERS).map(([name, [text]]) => h('option', { value: name }, text)),
  );
  orders.value = order;
  const tabs = h(
    'div',
    { class: 'segments', role: 'group', 'aria-label': 'Which URLs' },
    Object.entries(SHOWN).map(([name, text]) =>
      h('button', { type: 'button', 'aria-pressed': String(name === shown), onclick: (event) => choose(name, event.currentTarget) }, text),
    ),
  );

  view.show(
    {
      title: 'URLs',
      lead: 'Every receiver URL with its health. More than 70 % failures of more than 100 attempts disable a URL; it is then probed every 10 minutes.',
      actions: [orders, tabs],
    },
    list,
  );

  function choose(name, button) {
    shown = name;
    for (const each of tabs.children) each.setAttribute('aria-pressed', String(each === button));
    view.remember({ show: name, order });
    draw();
  }

  function draw() {
    // The other lists have one order each.
    orders.hidden = shown !== 'trouble';
    put(
      list,
      pagedTable({
        view,
        caption: `URLs: ${SHOWN[shown]}`,
        columns: columnsOf(view),
        sources: sourcesOf(view, shown, ORDERS[order][1]),
        empty: emptyOf(view, shown),
      }),
    );
  }

  draw();
}

function sourcesOf(view, shown, sorted) {
  const urls = (query) => listOf(view, '/v1/urls', query);
  if (shown === 'all') return [urls({})];
  if (shown !== 'trouble') return [urls({ state: shown })];
  if (sorted) return [urls({ failing: true, ...sorted })];
  // One list after the other, each by its index. What was disabled or frozen by hand need not be failing.
  const failing = urls({ failing: true });
  const enabled = async (cursor, limit) => {
    const page = await failing(cursor, limit);
    return { ...page, items: page.items.filter((url) => url.state === 'enabled') };
  };
  return [urls({ state: 'frozen' }), urls({ state: 'disabled' }), enabled];
}

function emptyOf(view, shown) {
  if (shown === 'trouble') return ['No URL is in trouble', 'All deliveries are attempted on schedule.'];
  if (shown === 'all' || shown === 'enabled') {
    return [
      'No URLs yet',
      'A URL appears here when a subscription uses it.',
      h('a', { class: 'button primary', href: view.href(['subscriptions', 'new']) }, 'Create a subscription'),
    ];
  }
  return [`No URL is ${shown}`, 'That is good news.'];
}

export function columnsOf(view) {
  return [
    {
      name: 'State',
      cell: (url) => [
        pill(url.state === 'enabled' && url.failing ? 'failing' : url.state),
        h('span', { class: 'below' }, sinceNow((url.failing && url.failing_since) || url.since)),
      ],
    },
    {
      name: 'URL',
      wide: true,
      cell: (url) => [
        h('a', { class: 'address-link', href: view.href(['urls', url.id], url) }, address(url.url)),
        url.tenant && h('span', { class: 'tag' }, url.tenant),
        h('span', { class: 'below' }, trouble(url)),
      ],
    },
    { name: 'Failure rate', cell: failureRate },
    { name: 'Last success', cell: silence },
    { name: 'Next probe', align: 'number', cell: (url) => nextProbe(view, url) },
    { name: 'Latency', align: 'number', cell: (url) => (url.recent_ms === null ? h('span', { class: 'muted' }, '–') : duration(url.recent_ms)) },
  ];
}

function nextProbe(view, url) {
  if (url.state === 'frozen') return h('span', { class: 'muted' }, 'none');
  if (!url.next_probe_at) return h('span', { class: 'muted' }, '–');
  return view.ticking((now) => countdown(url.next_probe_at, now), { class: 'countdown' });
}
