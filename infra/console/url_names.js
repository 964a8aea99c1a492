// Replays and attempts name a URL by its id. Each is asked for once, and shown when it is known.

import { address } from './address.js';
import { pathOf, call } from './api.js';
import { h, put } from './dom.js';

const names = new Map();

/** The URL of an item with a `url_id`. */
export function urlName(view, item) {
  const box = h('span', {}, item.url_id);
  const tenant = item.tenant ?? view.tenant;
  const key = `${tenant} ${item.url_id}`;
  if (!names.has(key)) {
    const found = call('GET', pathOf('urls', item.url_id), { tenant, signal: view.signal }).then(({ url }) => url);
    // Asked again when it could not be answered.
    found.catch(() => names.delete(key));
    names.set(key, found);
  }
  names.get(key).then(
    (url) => put(box, address(url)),
    () => {},
  );
  return box;
}
