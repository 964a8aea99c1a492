// Events by type, subject and time, newest first.

import { field } from './dialog.js';
import { h, put } from './dom.js';
import { hasCall } from './features.js';
import { number } from './format.js';
import { newerServer } from './notice.js';
import { listOf, pagedTable } from './table.js';
import { sinceNow } from './when.js';

const LEAD = 'What was accepted, also if no subscription matched. With the delivery log “trouble”, only events with a given id.';

export function eventsPage(view) {
  if (!hasCall('get', '/v1/events')) {
    view.show({ title: 'Events', lead: LEAD }, newerServer('The list of events'));
    return;
  }
  const filters = Object.fromEntries(['type', 'subject', 'since', 'until'].map((name) => [name, view.query.get(name) ?? '']));
  const text = (name, placeholder) =>
    h('input', { name, value: filters[name], placeholder, autocomplete: 'off', spellcheck: 'false' });
  const time = (name) => h('input', { type: 'datetime-local', name, value: local(filters[name]) });
  const inputs = { type: text('type', 'order.created'), subject: text('subject', 'orders/1'), since: time('since'), until: time('until') };
  const list = h('div', {});
  const apply = (event) => {
    event.preventDefault();
    for (const name of ['type', 'subject']) filters[name] = inputs[name].value.trim();
    for (const name of ['since', 'until']) filters[name] = inputs[name].value ? new Date(inputs[name].value).toISOString() : '';
    draw();
  };

  view.show(
    { title: 'Events', lead: LEAD },
    h(
      'form',
      { class: 'filters', 'aria-label': 'Which events', onsubmit: apply },
      field('Type', inputs.type),
      field('Subject', inputs.subject),
      field('Accepted from', inputs.since),
      field('Accepted until', inputs.until),
      h('button', { type: 'submit' }, 'Apply'),
    ),
    list,
  );

  function draw() {
    view.remember(filters);
    put(
      list,
      pagedTable({
        view,
        caption: 'Events, newest first',
        columns: columns(view),
        sources: [listOf(view, '/v1/events', filters)],
        empty: ['No such events', 'Type and subject must match as a whole. Widen the filters, or post an event.'],
      }),
    );
  }

  draw();
}

function columns(view) {
  return [
    {
      name: 'Event',
      wide: true,
      cell: (event) => [
        h('a', { href: view.href(['events', event.id], event) }, event.id),
        ' ',
        h('span', { class: 'muted' }, event.type),
        event.tenant && h('span', { class: 'tag' }, event.tenant),
      ],
    },
    { name: 'Subject', cell: (event) => event.subject ?? h('span', { class: 'muted' }, '–') },
    { name: 'Deliveries', align: 'number', cell: (event) => number(event.deliveries) },
    { name: 'Accepted', align: 'number', cell: (event) => sinceNow(event.accepted_at) },
  ];
}

function local(at) {
  if (!at) return '';
  const time = new Date(at);
  return new Date(time.getTime() - time.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}
