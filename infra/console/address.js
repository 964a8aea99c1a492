// A receiver's URL as text: the host stands out, and nothing of it is a link.

import { h } from './dom.js';

export function address(url) {
  const [, scheme = '', host = url, rest = ''] = /^(https?:\/\/)([^/?#]*)(.*)$/s.exec(url) ?? [];
  return h(
    'span',
    { class: 'address' },
    h('span', { class: 'scheme' }, scheme),
    h('span', { class: 'host' }, host),
    rest !== '/' && h('span', { class: 'path' }, breakable(rest)),
  );
}

/** A long path may be broken before a slash, and nowhere else unless it must. */
function breakable(path) {
  return path.split(/(?=[/?&])/).map((part) => [h('wbr', {}), part]);
}
