// One event with its deliveries, and the question "why did it not reach that subscription?".

import { pathOf } from './api.js';
import { deliveryColumns } from './deliveries.js';
import { field } from './dialog.js';
import { h, put } from './dom.js';
import { hasCall } from './features.js';
import { number, plural } from './format.js';
import { empty, failure, loading } from './notice.js';
import { row, table } from './table.js';
import { when } from './when.js';

export async function eventPage(view) {
  const id = view.segments[1];
  view.show({ title: 'Event' }, loading('the event'));
  const event = await view.get(pathOf('events', id));
  const columns = deliveryColumns(view);
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
  if (!hasCall('get', '/v1/explain')) return null;
  const input = h('input', { name: 'subscription', required: true, placeholder: 'sub_…', autocomplete: 'off', spellcheck: 'false' });
  const answer = h('div', { role: 'status' });
  const ask = async (submitted) => {
    submitted.preventDefault();
    try {
      put(answer, explanation(await view.get('/v1/explain', { event: event.id, subscription: input.value.trim() })));
    } catch (error) {
      put(answer, failure(error));
    }
  };
  return h(
    'section',
    { class: 'card', 'aria-label': 'Why did it not arrive?' },
    h('h2', {}, 'Why did it not arrive?'),
    h('form', { class: 'filters', onsubmit: ask }, field('Subscription', input), h('button', { type: 'submit' }, 'Explain')),
    answer,
  );
}

/** The sentence if there is one, and every other field as it is: the answer has different fields for different reasons. */
export function explanation(answer) {
  const { text, explanation: sentence, summary, ...rest } = answer;
  return [
    h(
      'p',
      { class: 'verdict' },
      text ?? sentence ?? summary ?? answer.answer ?? answer.outcome ?? 'The server gave no sentence; these are the facts:',
    ),
    h(
      'dl',
      { class: 'rows' },
      Object.entries(rest)
        .filter(([, value]) => value !== null)
        .map(([name, value]) =>
          h(
            'div',
            {},
            h('dt', {}, name.replaceAll('_', ' ')),
            h('dd', {}, typeof value === 'object' ? h('code', {}, JSON.stringify(value)) : String(value)),
          ),
        ),
    ),
  ];
}
