// All subscriptions.

import { address } from './address.js';
import { h } from './dom.js';
import { plural } from './format.js';
import { pill } from './state.js';
import { listOf, pagedTable } from './table.js';

/** More types than this are counted, so that a row stays a row. */
const MAX_TYPES = 4;

export function subscriptionsPage(view) {
  const columns = [
    { name: 'State', cell: (each) => pill(each.active ? 'active' : 'inactive') },
    {
      name: 'Subscription',
      wide: true,
      cell: (each) => [
        h('a', { class: 'address-link', href: view.href(['subscriptions', each.id], each) }, address(each.url)),
        each.tenant && h('span', { class: 'tag' }, each.tenant),
        each.description && h('span', { class: 'below' }, each.description),
      ],
    },
    { name: 'Event types', cell: (each) => types(each.event_types) },
    {
      name: 'Filters',
      align: 'number',
      cell: (each) => (each.filters.length > 0 ? plural(each.filters.length, 'filter') : h('span', { class: 'muted' }, 'none')),
    },
  ];
  view.show(
    {
      title: 'Subscriptions',
      lead: 'Who gets which events, at which URL.',
      actions: [
        h('a', { class: 'button', href: view.href(['subscriptions', 'test']) }, 'Test an event'),
        h('a', { class: 'button primary', href: view.href(['subscriptions', 'new']) }, 'New subscription'),
      ],
    },
    pagedTable({
      view,
      caption: 'Subscriptions',
      columns,
      sources: [listOf(view, '/v1/subscriptions')],
      empty: [
        'No subscriptions yet',
        'A subscription says which events are delivered to which URL.',
        h('a', { class: 'button primary', href: view.href(['subscriptions', 'new']) }, 'Create the first one'),
      ],
    }),
  );
}

export function types(names) {
  return [
    names.slice(0, MAX_TYPES).map((name) => h('code', { class: 'type' }, name)),
    names.length > MAX_TYPES && h('span', { class: 'muted' }, ` and ${names.length - MAX_TYPES} more`),
  ];
}
