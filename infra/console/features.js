// What this server can do, read from its OpenAPI document. The console also works with servers that lack the newest calls.

import { call } from './api.js';

let document;

/** Without the document, the console shows what every server has. */
export async function loadFeatures() {
  document ??= await call('GET', '/openapi.json', { tenant: null }).catch(() => ({ paths: {} }));
}

export function hasCall(method, path) {
  return Boolean(document?.paths?.[path]?.[method]);
}

export function hasParameter(path, name) {
  const item = document?.paths?.[path];
  const all = [...(item?.parameters ?? []), ...(item?.get?.parameters ?? [])].map(resolve);
  return all.some((parameter) => parameter?.name === name);
}

/** Whether the JSON body of a call has this field. */
export function hasField(method, path, name) {
  const content = resolve(document?.paths?.[path]?.[method]?.requestBody)?.content;
  return Boolean(resolve(content?.['application/json']?.schema)?.properties?.[name]);
}

function resolve(value) {
  const reference = value?.$ref;
  if (typeof reference !== 'string') return value;
  return reference
    .slice(2)
    .split('/')
    .reduce((at, name) => at?.[name], document);
}
