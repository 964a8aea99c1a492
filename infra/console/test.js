// Which subscriptions would get an event, and which filter refuses it. Nothing is sent.

import { address } from './address.js';
import { field } from './dialog.js';
import { h, put } from './dom.js';
import { refusal } from './explain.js';
import { plural } from './format.js';
import { empty, failure } from './notice.js';
import { pill } from './state.js';
import { row, table } from './table.js';

export function testPage(view) {
  const type = h('input', { name: 'type', required: true, placeholder: 'order.created', spellcheck: 'false' });
  const data = h('textarea', { name: 'data', rows: '8', spellcheck: 'false', value: '{}' });
  const subject = h('input', { name: 'subject', maxlength: '1024', spellcheck: 'false' });
  const results = h('div', { class: 'results', role: 'status' });
  const send = async (event) => {
    event.preventDefault();
    try {
      const sample = { type: type.value.trim(), data: JSON.parse(data.value || 'null'), subject: subject.value || undefined };
      put(results, matches(view, await view.send('POST', '/v1/subscriptions/test', sample)));
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
      field('Subject', subject, 'Optional'),
      h('div', { class: 'actions' }, h('button', { type: 'submit', class: 'primary' }, 'Test')),
    ),
    results,
  );
}

function matches(view, { items, matched, partial }) {
  if (items.length === 0) return empty('No subscriptions', 'There is none to match.');
  const columns = [
    { name: 'Match', cell: (item) => pill(item.matches ? 'success' : 'inactive', item.matches ? 'matches' : 'refused') },
    {
      name: 'Subscription',
      wide: true,
      cell: (item) => h('a', { class: 'address-link', href: view.href(['subscriptions', item.subscription_id], item) }, address(item.url)),
    },
    { name: 'Why not', wide: true, cell: (item) => (item.matches ? h('span', { class: 'muted' }, '–') : reason(item)) },
  ];
  return [
    h('p', { class: `verdict ${matched > 0 ? 'ok' : 'warn'}` }, `${plural(matched, 'subscription')} of ${items.length} would get it.`),
    partial && h('p', { class: 'hint' }, 'There are more subscriptions: the first 1,000 were asked.'),
    h(
      'div',
      { class: 'list' },
      h(
        'div',
        { class: 'scroll' },
        table({ caption: 'Subscriptions and whether they match', columns, rows: items.map((item) => row(columns, item)) }),
      ),
    ),
  ];
}

function reason(item) {
  if (item.refused_by) return refusal(item.refused_by);
  return { inactive: 'it is not active', type: 'it asks for other types' }[item.reason] ?? item.reason;
}
