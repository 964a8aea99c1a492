// Who changed what, when and why.

import { h } from './dom.js';
import { hasCall } from './features.js';
import { newerServer } from './notice.js';
import { listOf, pagedTable } from './table.js';
import { when } from './when.js';

const LEAD = 'Every change that was made with a key: subscriptions, states of URLs, replays, keys, quotas. Kept for 90 days.';

export function auditPage(view) {
  if (!hasCall('get', '/v1/audit')) {
    view.show({ title: 'Audit', lead: LEAD }, newerServer('The audit list'));
    return;
  }
  const columns = [
    { name: 'When', cell: (entry) => when(entry.at) },
    {
      name: 'Who',
      cell: (entry) => [
        h('code', {}, entry.key_id),
        entry.tenant && h('span', { class: 'tag' }, entry.tenant),
        h('span', { class: 'below' }, entry.role),
      ],
    },
    {
      name: 'What',
      wide: true,
      cell: (entry) => [
        h('strong', {}, entry.action),
        ' ',
        target(view, entry),
        entry.changed.length > 0 && h('span', { class: 'below' }, `changed ${entry.changed.join(', ')}`),
      ],
    },
    { name: 'Why', cell: (entry) => entry.reason ?? h('span', { class: 'muted' }, '–') },
  ];
  view.show(
    { title: 'Audit', lead: LEAD },
    pagedTable({
      view,
      caption: 'Changes, newest first',
      columns,
      sources: [listOf(view, '/v1/audit')],
      empty: ['No changes yet', 'Changes by people and keys are listed here.'],
    }),
  );
}

/** A link to what was changed, if the console has a page for it. */
function target(view, entry) {
  const id = entry.target;
  // What was deleted has no page.
  const page = !entry.action.endsWith('.deleted') && { url_: 'urls', sub_: 'subscriptions', dlv_: 'deliveries' }[id.slice(0, 4)];
  return page ? h('a', { href: view.href([page, id], entry) }, id) : h('code', {}, id);
}
