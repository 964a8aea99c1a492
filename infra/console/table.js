// Tables that are loaded page by page. Nothing is loaded that was not asked for, so a list costs the same with 10 items and with 100,000.

import { h, put } from './dom.js';
import { number } from './format.js';
import { empty as emptyState, failure, loading, whisper } from './notice.js';

const PAGE_SIZE = 50;
/** A page can be empty and have a next one. After so many the operator decides whether to look further. */
const MAX_EMPTY_PAGES = 5;

/** A table; on a phone the CSS shows each row as a card, which is why the roles are written out and cells carry their label. */
export function table({ caption, columns, rows, quiet = true }) {
  return h(
    'table',
    { role: 'table' },
    h('caption', { class: quiet ? 'visually-hidden' : '' }, caption),
    h(
      'thead',
      { role: 'rowgroup' },
      h(
        'tr',
        { role: 'row' },
        columns.map(({ name, align }) => h('th', { role: 'columnheader', scope: 'col', class: align }, name)),
      ),
    ),
    h('tbody', { role: 'rowgroup' }, rows),
  );
}

export function row(columns, item) {
  return h(
    'tr',
    { role: 'row' },
    columns.map(({ name, cell, align, wide }) =>
      h('td', { role: 'cell', 'data-label': name, class: [align, wide && 'wide'].filter(Boolean).join(' ') }, cell(item)),
    ),
  );
}

/**
 * A list with a "Show more" button. `sources` are read one after the other: each is a function of a cursor and a limit that returns
 * `{items, next}`. Another choice of the operator makes another list, so an answer that comes late goes to one that is no longer shown.
 */
export function pagedTable({ view, caption, columns, sources, empty, pageSize = PAGE_SIZE }) {
  const box = h('div', { class: 'list' }, loading(caption));
  const body = h('tbody', { role: 'rowgroup' });
  const foot = h('div', { class: 'list-foot' });
  let position = { source: 0, cursor: null };
  let shown = 0;
  let hadFocus = false;

  async function more() {
    // A disabled button loses the focus; keyboard users get it back on the new one.
    hadFocus = foot.contains(document.activeElement);
    for (const button of foot.querySelectorAll('button')) button.disabled = true;
    const before = shown;
    try {
      for (let pages = 0; position && shown === before && pages < MAX_EMPTY_PAGES; pages += 1) await readPage();
      if (box.isConnected) draw(before);
    } catch (error) {
      if (view.signal.aborted) return;
      put(foot, failure(error, more));
      if (shown === 0) put(box, foot);
    }
  }

  /** Short sources are read together, up to one page. */
  async function readPage() {
    const before = shown;
    do {
      const page = await sources[position.source](position.cursor, pageSize - (shown - before));
      body.append(...page.items.map((item) => row(columns, item)));
      shown += page.items.length;
      position = following(page.next);
      if (page.next) return;
    } while (position && shown - before < pageSize);
  }

  function following(next) {
    if (next) return { source: position.source, cursor: next };
    return position.source + 1 < sources.length ? { source: position.source + 1, cursor: null } : null;
  }

  function draw(before) {
    if (shown === 0 && !position) {
      put(box, emptyState(...empty));
      whisper(empty[0]);
      return;
    }
    if (!box.contains(body)) {
      const whole = table({ caption, columns, rows: [] });
      whole.querySelector('tbody').replaceWith(body);
      put(box, h('div', { class: 'scroll' }, whole), foot);
    }
    const count = position ? `${number(shown)} shown` : `${number(shown)} in all`;
    put(foot, h('span', {}, count), position && h('button', { type: 'button', onclick: more }, 'Show more'));
    if (hadFocus) (foot.querySelector('button') ?? body.rows[before]?.querySelector('a'))?.focus();
    whisper(count);
  }

  more();
  return box;
}

/** One list of the API as a source. */
export function listOf(view, path, query = {}) {
  return (cursor, limit) => view.get(path, { ...query, limit, cursor });
}
