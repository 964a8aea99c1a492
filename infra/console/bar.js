// A bar that shows a value against the line at which something happens.

import { h, s } from './dom.js';

/** `value` and `line` are shares of the whole width, 0 to 1. `text` says the same in words. */
export function bar({ value, line, over, text, lineText }) {
  const width = Math.min(1, Math.max(0, value)) * 100;
  return h(
    'div',
    { class: `bar ${over ? 'over' : ''}` },
    s(
      'svg',
      { viewBox: '0 0 100 8', preserveAspectRatio: 'none', 'aria-hidden': 'true' },
      s('rect', { class: 'bar-rail', width: 100, height: 8 }),
      s('rect', { class: 'bar-value', width, height: 8 }),
      line !== undefined && s('rect', { class: 'bar-line', x: line * 100 - 0.6, width: 1.2, height: 8 }),
    ),
    h('span', { class: 'bar-text' }, text, lineText && h('span', { class: 'visually-hidden' }, `; ${lineText}`)),
  );
}
