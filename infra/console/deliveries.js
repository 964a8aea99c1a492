// Deliveries by state, event, URL or subscription.

import { address } from './address.js';
import { field } from './dialog.js';
import { h, put } from './dom.js';
import { countdown, plural, until } from './format.js';
import { pill } from './state.js';
import { listOf, pagedTable } from './table.js';
import { sinceNow } from './when.js';
import { outcomeOf } from './why.js';

const STATES = { '': 'All', waiting: 'Waiting', parked: 'Parked', dead: 'Dead', delivered: 'Delivered' };

export function deliveriesPage(view) {
  const filters = Object.fromEntries(
    ['state', 'event', 'url', 'subscription', 'since', 'until'].map((name) => [name, view.query.get(name) ?? '']),
  );
  const list = h('div', {});
  const tabs = h(
    'div',
    { class: 'segments', role: 'group', 'aria-label': 'State' },
    Object.entries(STATES).map(([state, text]) =>
      h(
        'button',
        { type: 'button', 'aria-pressed': String(state === filters.state), onclick: (event) => choose(state, event.currentTarget) },
        text,
      ),
    ),
  );
  const since = h('input', { type: 'datetime-local', name: 'since', value: local(filters.since) });
  const until_ = h('input', { type: 'datetime-local', name: 'until', value: local(filters.until) });
  const apply = (event) => {
    event.preventDefault();
    filters.since = since.value ? new Date(since.value).toISOString() : '';
    filters.until = until_.value ? new Date(until_.value).toISOString() : '';
    draw();
  };

  view.show(
    { title: 'Deliveries', lead: 'One event on its way to one subscription, newest first.', actions: [tabs] },
    h(
      'form',
      { class: 'filters', onsubmit: apply },
      chosen(view, filters),
      field('Accepted from', since),
      field('Accepted until', until_),
      h('button', { type: 'submit' }, 'Apply'),
    ),
    list,
  );

  function choose(state, button) {
    filters.state = state;
    for (const each of tabs.children) each.setAttribute('aria-pressed', String(each === button));
    draw();
  }

  function draw() {
    view.remember(filters);
    put(
      list,
      pagedTable({
        view,
        caption: 'Deliveries, newest first',
        columns: deliveryColumns(view),
        sources: [listOf(view, '/v1/deliveries', filters)],
        empty: [
          filters.state ? `No ${filters.state} deliveries` : 'No deliveries yet',
          'A delivery is listed after its first attempt, or once it is parked. Widen the filters, or post an event.',
        ],
      }),
    );
  }

  draw();
}

/** Filters that came with a link, each with a way to remove it. */
function chosen(view, filters) {
  return ['event', 'url', 'subscription']
    .filter((name) => filters[name])
    .map((name) =>
      h(
        'span',
        { class: 'chip' },
        `${name} ${filters[name]}`,
        h('a', { href: view.href('deliveries', {}, { ...filters, [name]: '' }), 'aria-label': `Remove the filter ${name}` }, '×'),
      ),
    );
}

function local(at) {
  if (!at) return '';
  const time = new Date(at);
  return new Date(time.getTime() - time.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

/** The page of a URL needs no URL in each row, and that of an event no event. */
export function deliveryColumns(view, { withUrl = true, withEvent = true } = {}) {
  const link = (delivery, inside) => h('a', { class: withEvent ? '' : 'address-link', href: view.href(['deliveries', delivery.id], delivery) }, inside);
  return [
    { name: 'State', cell: (delivery) => pill(delivery.state) },
    {
      name: withEvent ? 'Event' : 'Delivery to',
      wide: true,
      cell: (delivery) => [
        link(delivery, withEvent ? delivery.event_id : address(delivery.url)),
        withEvent && [' ', h('span', { class: 'muted' }, delivery.type)],
        delivery.tenant && h('span', { class: 'tag' }, delivery.tenant),
        withEvent && withUrl && h('span', { class: 'below' }, address(delivery.url)),
      ],
    },
    { name: 'Last attempt', cell: (delivery) => lastAttempt(delivery) },
    { name: 'Next', cell: (delivery) => next(view, delivery) },
    { name: 'Accepted', align: 'number', cell: (delivery) => sinceNow(delivery.accepted_at) },
  ];
}

function lastAttempt(delivery) {
  const last = delivery.attempts.at(-1);
  if (!last) return h('span', { class: 'muted' }, 'not attempted');
  return [
    h('span', { class: `outcome ${last.outcome}` }, last.outcome === 'success' ? `status ${last.status}` : outcomeOf(last)),
    h('span', { class: 'below' }, plural(delivery.attempts.length, 'attempt')),
  ];
}

function next(view, delivery) {
  if (delivery.state === 'waiting') return view.ticking((now) => countdown(delivery.due_at, now), { class: 'countdown' });
  if (delivery.state === 'parked') return view.ticking((now) => `expires ${until(delivery.expires_at, now)}`, { class: 'muted' });
  if (delivery.state === 'dead') return h('span', {}, delivery.reason);
  return h('span', { class: 'muted' }, '–');
}
