// URLs by trouble: which, why, since when, and how close to the thresholds.

import { address } from './address.js';
import { h, put } from './dom.js';
import { hasParameter } from './features.js';
import { bounded, countdown, number } from './format.js';
import { failureRate, silence, trouble } from './health.js';
import { pill } from './state.js';
import { listOf, pagedTable } from './table.js';
import { sinceNow } from './when.js';

const SHOWN = { trouble: 'In trouble', frozen: 'Frozen', disabled: 'Disabled', enabled: 'Enabled', all: 'All' };

export function urlsPage(view) {
  let shown = SHOWN[view.query.get('show')] ? view.query.get('show') : 'trouble';
  const list = h('div', {});
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
      actions: [tabs],
    },
    list,
  );

  function choose(name, button) {
    shown = name;
    for (const each of tabs.children) each.setAttribute('aria-pressed', String(each === button));
    view.remember({ show: name });
    draw();
  }

  function draw() {
    const failing = hasParameter('/v1/urls', 'failing');
    put(
      list,
      pagedTable({
        view,
        caption: `URLs: ${SHOWN[shown]}`,
        columns: columnsOf(view),
        ...sourcesOf(view, shown, failing),
        empty: emptyOf(view, shown, failing),
      }),
      shown === 'trouble' &&
        !failing &&
        h('p', { class: 'hint' }, 'URLs that fail but are still enabled are under “Enabled”: to list them here needs a newer server.'),
    );
  }

  draw();
}

/** Frozen first, then disabled, then those that are failing and still enabled: one list after the other, each by its index. */
function sourcesOf(view, shown, failing) {
  const urls = (query) => listOf(view, '/v1/urls', query);
  if (shown === 'all') return { sources: [urls({})] };
  if (shown !== 'trouble') return { sources: [urls({ state: shown })] };
  const sources = [urls({ state: 'frozen' }), urls({ state: 'disabled' })];
  if (failing) {
    const enabled = urls({ failing: true });
    sources.push(async (cursor, limit) => {
      const page = await enabled(cursor, limit);
      return { ...page, items: page.items.filter((url) => url.state === 'enabled') };
    });
  }
  return { sources };
}

function emptyOf(view, shown, failing) {
  if (shown === 'trouble')
    return [failing ? 'No URL is in trouble' : 'No URL is disabled or frozen', 'All deliveries are attempted on schedule.'];
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
        pill(url.state === 'enabled' && url.failing_since ? 'failing' : url.state),
        h('span', { class: 'below' }, sinceNow(url.failing_since ?? url.since)),
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
    // Older servers count it for single URLs only.
    hasParameter('/v1/urls', 'failing') && { name: 'Held back', align: 'number', cell: heldBack },
  ].filter(Boolean);
}

function nextProbe(view, url) {
  if (url.state === 'frozen') return h('span', { class: 'muted' }, 'none');
  if (!url.next_probe_at) return h('span', { class: 'muted' }, '–');
  return view.ticking((now) => countdown(url.next_probe_at, now), { class: 'countdown' });
}

function heldBack(url) {
  const count = (value) => (typeof value === 'object' && value !== null ? bounded(value) : number(value));
  const parts = [];
  if (url.parked !== undefined) parts.push(`${count(url.parked)}${url.parked_more ? '+' : ''} parked`);
  if (url.waiting !== undefined) parts.push(`${count(url.waiting)} waiting`);
  if (url.releasing) parts.push('releasing');
  if (parts.length === 0) return h('span', { class: 'muted' }, '–');
  return parts.map((part) => h('span', { class: 'line' }, part));
}
