// What this server can do, read from its OpenAPI document. Only for calls that came after the first release of the console.

import { call } from './api.js';

let document;

/** Without the document, the console shows what every server has. */
export async function loadFeatures() {
  document ??= await call('GET', '/openapi.json', { tenant: null }).catch(() => ({ paths: {} }));
}

export function hasCall(method, path) {
  return Boolean(document?.paths?.[path]?.[method]);
}
