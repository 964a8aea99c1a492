// The only place that talks to the server.

import { session } from './session.js';

/** An answer that is not a success, with what the server says about it (RFC 9457). */
export class Problem extends Error {
  constructor(status, body) {
    super(body.detail ?? body.title ?? `The server answered ${status}.`);
    this.status = status;
    this.title = body.title ?? '';
    this.errors = Array.isArray(body.errors) ? body.errors : [];
  }
}

/** Sends one request and returns the parsed body. Throws a `Problem`; status 0 means that no answer came. */
export async function call(method, path, { query = {}, body, tenant = session.tenant, key = session.key, signal } = {}) {
  const parameters = Object.entries({ ...query, tenant }).filter(([, value]) => value !== null && value !== undefined && value !== '');
  const search = new URLSearchParams(parameters).toString();
  let response;
  try {
    response = await fetch(search ? `${path}?${search}` : path, {
      method,
      signal,
      headers: { authorization: `Bearer ${key}`, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: 'omit',
      cache: 'no-store',
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Problem(0, {
      detail: 'The server does not answer. Check that Holdfast is running and that you are connected, then try again.',
    });
  }
  if (response.status === 204) return null;
  const text = await response.text();
  let parsed;
  try {
    parsed = JSON.parse(text);
  } catch {
    // A proxy in front of Holdfast answers with its own pages.
    throw new Problem(response.status, {
      detail: `The answer (status ${response.status}) is not from Holdfast; check the proxy in front of it.`,
    });
  }
  // A key can be deleted while the page is open; the shell asks for another one.
  if (response.status === 401) document.dispatchEvent(new Event('key-refused'));
  if (!response.ok) throw new Problem(response.status, parsed);
  return parsed;
}

/** The path of one resource; ids may contain any character. */
export function pathOf(...segments) {
  return `/v1/${segments.map(encodeURIComponent).join('/')}`;
}
