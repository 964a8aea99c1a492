// One event with its deliveries, and the question "why did it not reach that subscription?".

import { pathOf } from './api.js';
import { deliveryColumns } from './deliveries.js';
import { field } from './dialog.js';
import { h, put } from './dom.js';
import { explanation } from './explain.js';
import { number, plural } from './format.js';
import { empty, failure, loading } from './notice.js';
import { row, table } from './table.js';
import { when } from './when.js';

export async function eventPage(view) {
  const id = view.segments[1];
  view.show({ title: 'Event' }, loading('the event'));
  const event = await view.get(pathOf('events', id));
  const columns = deliveryColumns(view, { withEvent: false });
  const rows = event.deliveries.map((delivery) => row(columns, delivery));
  view.show(
    {
      title: `Event ${event.id}`,
      kicker: 'Event',
      heading: [event.id, ' ', h('span', { class: 'muted' }, event.type)],
      lead: ['Accepted ', when(event.timestamp), `, matched ${plural(event.delivery_count, 'subscription')}.`],
    },
    h(
      'section',
      { 'aria-label': 'Deliveries' },
      h('div', { class: 'section-head' }, h('h2', {}, 'Deliveries')),
      rows.length > 0
        ? h('div', { class: 'list' }, h('div', { class: 'scroll' }, table({ caption: 'Deliveries of this event', columns, rows })))
        : empty(
            event.delivery_count === 0 ? 'No subscription matched' : 'Not attempted yet',
            event.delivery_count === 0
              ? 'Check the event types and filters of the subscriptions.'
              : 'Deliveries are listed after their first attempt, or once they are parked.',
          ),
      event.more &&
        h(
          'p',
          {},
          h('a', { href: view.href('deliveries', {}, { event: event.id }) }, `Show all ${number(event.delivery_count)} deliveries`),
        ),
    ),
    explain(view, event),
    h(
      'section',
      { class: 'card', 'aria-label': 'Data' },
      h('h2', {}, 'Data'),
      event.subject && h('p', {}, 'Subject: ', event.subject),
      event.data === undefined
        ? h('p', { class: 'muted' }, 'The body is not stored yet.')
        : h('pre', { tabindex: '0', class: 'data' }, JSON.stringify(event.data, null, 2)),
    ),
  );
}

function explain(view, event) {
  const input = h('input', {
    name: 'subscription',
    required: true,
    placeholder: 'sub_…',
    autocomplete: 'off',
    spellcheck: 'false',
    value: view.query.get('subscription') ?? '',
  });
  const answer = h('div', { class: 'results', role: 'status' });
  const ask = async (submitted) => {
    submitted?.preventDefault();
    const subscription = input.value.trim();
    view.remember({ subscription });
    try {
      put(answer, explanation(view, await view.get('/v1/explain', { event: event.id, subscription })));
    } catch (error) {
      put(answer, failure(error));
    }
  };
  if (input.value) ask();
  return h(
    'section',
    { class: 'card', 'aria-label': 'Why did it not arrive?' },
    h('h2', {}, 'Why did it not arrive?'),
    h('p', { class: 'hint' }, 'Enter the id of a subscription that should have got this event.'),
    h('form', { class: 'filters wide', onsubmit: ask }, field('Subscription', input), h('button', { type: 'submit' }, 'Explain')),
    answer,
  );
}
