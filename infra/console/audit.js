// Who changed what, when and why.

import { h } from './dom.js';
import { hasCall } from './features.js';
import { newerServer } from './notice.js';
import { listOf, pagedTable } from './table.js';
import { when } from './when.js';

const LEAD = 'Every change by a person or a key: states of URLs, subscriptions, replays, keys.';

export function auditPage(view) {
  if (!hasCall('get', '/v1/audit')) {
    view.show({ title: 'Audit', lead: LEAD }, newerServer('The audit list'));
    return;
  }
  const columns = [
    { name: 'When', cell: (entry) => when(entry.at) },
    { name: 'Who', cell: (entry) => [entry.by, entry.tenant && h('span', { class: 'tag' }, entry.tenant)] },
    { name: 'What', wide: true, cell: (entry) => [h('strong', {}, entry.action ?? entry.what), ' ', target(view, entry)] },
    { name: 'Why', cell: (entry) => entry.why ?? entry.reason ?? h('span', { class: 'muted' }, '–') },
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
  const id = entry.target ?? entry.id ?? '';
  const page = { url_: 'urls', sub_: 'subscriptions', dlv_: 'deliveries', job_: 'replays' }[id.slice(0, 4)];
  return page ? h('a', { href: view.href([page, id], entry) }, id) : h('code', {}, id);
}
