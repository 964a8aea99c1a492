// Finds an event, a delivery, a URL or a subscription by what the operator has at hand: an id from a log, or a URL from a customer.

import { address } from './address.js';
import { pathOf } from './api.js';
import { h, put } from './dom.js';
import { empty, loading, whisper } from './notice.js';
import { pill } from './state.js';
import { columnsOf } from './urls.js';
import { listOf, pagedTable } from './table.js';

/** The server reads more of the list for a larger page. */
const MAX_URLS = 100;

export async function searchPage(view) {
  const wanted = view.query.get('q')?.trim() ?? '';
  const results = h('div', {}, loading('results', 3));
  view.show({ title: `Search: ${wanted}`, heading: 'Search', lead: ['Results for ', h('strong', {}, wanted)] }, results);
  const answers = await Promise.all([
    delivery(view, wanted),
    url(view, wanted),
    subscription(view, wanted),
    replay(view, wanted),
    event(view, wanted),
    urlsLike(view, wanted),
  ]);
  const found = answers.filter(Boolean);
  if (found.length === 0) {
    put(
      results,
      empty(
        'Nothing found',
        'Search finds a whole event id, delivery id (webhook-id), URL id, subscription id or replay id, or the beginning of a URL. Operators: choose the tenant first.',
      ),
    );
  } else {
    put(results, found);
  }
  whisper(found.length === 0 ? 'Nothing found' : `${found.length} kinds of results`);
}

/** A miss is not an error here. */
async function look(view, path, query) {
  try {
    return await view.get(path, query);
  } catch (error) {
    if ([400, 404].includes(error.status)) return null;
    throw error;
  }
}

const hit = (kind, link, title, state) =>
  h('a', { class: 'card hit', href: link }, h('span', { class: 'kicker' }, kind), h('span', { class: 'hit-title' }, title), state);

async function delivery(view, wanted) {
  if (!wanted.startsWith('dlv_')) return null;
  const found = await look(view, pathOf('deliveries', wanted));
  return found && hit('Delivery', view.href(['deliveries', found.id]), [found.event_id, ' to ', address(found.url)], pill(found.state));
}

async function url(view, wanted) {
  if (!wanted.startsWith('url_')) return null;
  const found = await look(view, pathOf('urls', wanted));
  return found && hit('URL', view.href(['urls', found.id]), address(found.url), pill(found.state));
}

async function subscription(view, wanted) {
  if (!wanted.startsWith('sub_')) return null;
  const found = await look(view, pathOf('subscriptions', wanted));
  return (
    found && hit('Subscription', view.href(['subscriptions', found.id]), address(found.url), pill(found.active ? 'active' : 'inactive'))
  );
}

async function replay(view, wanted) {
  if (!wanted.startsWith('job_')) return null;
  const found = await look(view, pathOf('replays', wanted));
  return found && hit('Replay', view.href(['replays', found.id]), found.id, pill(found.state));
}

async function event(view, wanted) {
  // An event id is visible ASCII without spaces; anything else cannot be one.
  if (!/^[!-~]{1,256}$/.test(wanted)) return null;
  const found = await look(view, pathOf('events', wanted));
  return found && hit('Event', view.href(['events', found.id]), [found.id, ' ', h('span', { class: 'muted' }, found.type)]);
}

/** The URL itself is looked up at once; for those that begin so, the list of all URLs is read, a part of it at a time. */
async function urlsLike(view, wanted) {
  if (!/^https?:\/\//.test(wanted)) return null;
  const exact = (await look(view, '/v1/urls', { url: wanted }))?.items[0];
  return [
    exact && hit('URL', view.href(['urls', exact.id], exact), address(exact.url), pill(exact.state)),
    h(
      'section',
      { 'aria-label': 'URLs that begin so' },
      h('div', { class: 'section-head' }, h('h2', {}, 'URLs that begin so')),
      pagedTable({
        view,
        caption: 'URLs that begin so',
        columns: columnsOf(view),
        sources: [listOf(view, '/v1/urls', { url: `${wanted}*` })],
        pageSize: MAX_URLS,
        empty: ['No URL begins so', 'Check the scheme, http or https, and the spelling of the host.'],
      }),
    ),
  ];
}
