// Which subscriptions would get an event, and which filter refuses it. Nothing is sent.

import { address } from './address.js';
import { field } from './dialog.js';
import { h, put } from './dom.js';
import { hasCall } from './features.js';
import { empty, failure, newerServer } from './notice.js';
import { pill } from './state.js';
import { row, table } from './table.js';

export function testPage(view) {
  if (!hasCall('post', '/v1/subscriptions/test')) {
    view.show({ title: 'Test an event' }, newerServer('Testing'));
    return;
  }
  const type = h('input', { name: 'type', required: true, placeholder: 'order.created', spellcheck: 'false' });
  const data = h('textarea', { name: 'data', rows: '8', spellcheck: 'false', value: '{}' });
  const results = h('div', { role: 'status' });
  const send = async (event) => {
    event.preventDefault();
    try {
      put(
        results,
        matches(
          view,
          await view.send('POST', '/v1/subscriptions/test', { type: type.value.trim(), data: JSON.parse(data.value || 'null') }),
        ),
      );
    } catch (error) {
      put(results, failure(error instanceof SyntaxError ? { title: 'The data is not JSON', message: error.message } : error));
    }
  };
  view.show(
    { title: 'Test an event', lead: 'See which subscriptions an event would match, and which filter refuses it. Nothing is sent.' },
    h(
      'form',
      { class: 'card form', onsubmit: send },
      field('Type', type),
      field('Data', data, 'JSON'),
      h('div', { class: 'actions' }, h('button', { type: 'submit', class: 'primary' }, 'Test')),
    ),
    results,
  );
}

function matches(view, answer) {
  const items = answer.items ?? [];
  if (items.length === 0) return empty('No subscriptions', 'There is none to match.');
  const isMatch = (item) => item.matches ?? item.matched ?? false;
  const columns = [
    { name: 'Match', cell: (item) => pill(isMatch(item) ? 'success' : 'inactive', isMatch(item) ? 'matches' : 'refused') },
    {
      name: 'Subscription',
      wide: true,
      cell: (item) =>
        h(
          'a',
          { href: view.href(['subscriptions', item.subscription_id ?? item.id], item) },
          item.url ? address(item.url) : (item.subscription_id ?? item.id),
        ),
    },
    { name: 'Why not', cell: (item) => (isMatch(item) ? '' : reason(item)) },
  ];
  return h(
    'div',
    { class: 'list' },
    h(
      'div',
      { class: 'scroll' },
      table({ caption: 'Subscriptions and whether they match', columns, rows: items.map((item) => row(columns, item)) }),
    ),
  );
}

function reason(item) {
  const why = item.why ?? item.reason ?? item.refused_by ?? item.filter ?? '';
  return typeof why === 'string' ? why : h('code', {}, JSON.stringify(why));
}
