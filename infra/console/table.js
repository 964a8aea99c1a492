// Tables that are loaded page by page. Nothing is loaded that was not asked for, so a list costs the same with 10 items and with 100,000.

import { h, put } from './dom.js';
import { number } from './format.js';
import { empty as emptyState, failure, loading, whisper } from './notice.js';

const PAGE_SIZE = 50;

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
 * `{items, next}`. Returns the element and a `reload`.
 */
export function pagedTable({ view, caption, columns, sources, empty, pageSize = PAGE_SIZE }) {
  const box = h('div', { class: 'list' });
  let generation = 0;

  function reload() {
    generation += 1;
    const mine = generation;
    const body = h('tbody', { role: 'rowgroup' });
    const foot = h('div', { class: 'list-foot' });
    let position = { source: 0, cursor: null };
    let shown = 0;
    let hadFocus = false;

    async function more(wanted) {
      // A disabled button loses the focus; keyboard users get it back on the new one.
      hadFocus = foot.contains(document.activeElement);
      for (const button of foot.querySelectorAll('button')) button.disabled = true;
      const before = shown;
      try {
        while (position && shown - before < wanted) {
          const page = await sources[position.source](position.cursor, wanted);
          if (mine !== generation || view.signal.aborted) return;
          const { items } = page;
          body.append(...items.map((item) => row(columns, item)));
          shown += items.length;
          position = following(page.next);
          // A page that is shorter than the limit is shown at once; the next one is asked for by the operator.
          if (items.length > 0 && page.next) break;
        }
        draw(shown - before);
      } catch (error) {
        if (mine !== generation || view.signal.aborted) return;
        put(
          foot,
          failure(error, () => more(wanted)),
        );
        if (shown === 0) put(box, foot);
      }
    }

    function following(next) {
      if (next) return { source: position.source, cursor: next };
      return position.source + 1 < sources.length ? { source: position.source + 1, cursor: null } : null;
    }

    function draw(added) {
      if (shown === 0) {
        put(box, emptyState(...empty));
        whisper(empty[0]);
        return;
      }
      if (!box.contains(body)) {
        const whole = table({ caption, columns, rows: [] });
        whole.querySelector('tbody').replaceWith(body);
        put(box, h('div', { class: 'scroll' }, whole), foot);
      }
      put(
        foot,
        h('span', {}, position ? `${number(shown)} shown` : `${number(shown)} in all`),
        position && h('button', { type: 'button', onclick: () => more(pageSize) }, 'Show more'),
      );
      if (hadFocus) (foot.querySelector('button') ?? body.rows[shown - added]?.querySelector('a'))?.focus();
      whisper(`${number(shown)} shown`);
    }

    if (!box.firstChild) put(box, loading(caption));
    return more(pageSize);
  }

  reload();
  return { element: box, reload };
}

/** One list of the API as a source. */
export function listOf(view, path, query = {}, name = 'items') {
  return async (cursor, limit) => {
    const page = await view.get(path, { ...query, limit, cursor });
    return { items: page[name], next: page.next };
  };
}
