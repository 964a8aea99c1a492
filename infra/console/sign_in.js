// The first page: asks for a key, once for each tab.

import { Problem, call, pathOf } from './api.js';
import { timed } from './clock.js';
import { field } from './dialog.js';
import { h } from './dom.js';
import { session } from './session.js';

/** An id that exists nowhere. Without a tenant, the server asks for one before it looks. */
const NO_SUCH_URL = `url_${'0'.repeat(26)}`;

export function signIn(start, message) {
  const input = h('input', {
    name: 'key',
    type: 'password',
    autocomplete: 'off',
    spellcheck: 'false',
    required: true,
    placeholder: 'hf_…',
  });
  const submit = (event) => {
    event.preventDefault();
    session.key = input.value.trim();
    start();
  };
  queueMicrotask(() => input.focus());
  return h(
    'main',
    { class: 'sign-in', id: 'main' },
    h(
      'form',
      { class: 'card', onsubmit: submit },
      h('h1', {}, h('span', { class: 'logo', 'aria-hidden': 'true' }), 'Holdfast'),
      h('p', { class: 'lead' }, 'See which deliveries are in trouble, why, and set them right.'),
      message && h('p', { class: 'message', role: 'alert' }, message),
      field('Key', input, 'A key with the role viewer, admin or operator. It stays in this tab and is forgotten when you close it.'),
      h('button', { type: 'submit', class: 'primary' }, 'Open the console'),
      h(
        'details',
        {},
        h('summary', {}, 'Where do I find a key?'),
        h(
          'p',
          {},
          'In development mode, Holdfast prints the key at every start and keeps it in the file ',
          h('code', {}, 'key'),
          ' of its data folder. Otherwise ask an operator, who creates keys with ',
          h('code', {}, 'POST /v1/keys'),
          '.',
        ),
      ),
    ),
  );
}

/** What this key may see. Throws if it is not valid. */
export async function whoAmI() {
  await whoAmI.clock();
  const tenants = await allTenants();
  const hasTenant = tenants === null || (await ownTenant());
  session.isForAll = !hasTenant;
  return { isOperator: tenants !== null, hasTenant, tenants: tenants ?? [] };
}

whoAmI.clock = () => timed(() => call('GET', '/v1/overview', { query: { minutes: 1 } }));

async function ownTenant() {
  // Lists over all tenants name the tenant of each item.
  const urls = await call('GET', '/v1/urls', { query: { limit: 1 }, tenant: null });
  if (urls.items.length > 0) return urls.items[0].tenant === undefined;
  try {
    await call('GET', pathOf('urls', NO_SUCH_URL), { tenant: null });
  } catch (error) {
    return !(error instanceof Problem && error.errors.some(({ field: name }) => name === 'tenant'));
  }
  return true;
}

/** The names of the tenants that have keys, or null for a key that is not an operator's. */
async function allTenants() {
  try {
    const keys = await call('GET', '/v1/keys', { query: { limit: 100 }, tenant: null });
    return [...new Set(keys.items.map((key) => key.tenant).filter(Boolean))].sort();
  } catch (error) {
    if (error.status === 403) return null;
    throw error;
  }
}
