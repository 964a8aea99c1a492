// Calls of newer servers are used where the OpenAPI document has them, and are not missed where it does not.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { Browser, assertAccessible } from './browser.mjs';
import { answer, url } from './mock.mjs';
import { Server } from './server.mjs';

let server;
let browser;
let document;

before(async () => {
  [server, browser] = await Promise.all([Server.start(), Browser.start()]);
  document = await (await fetch(`${server.base}/openapi.json`)).json();
});
after(async () => {
  await browser?.stop();
  await server?.stop();
});

/** The server's document without what this console treats as new. */
function older() {
  const copy = structuredClone(document);
  delete copy.paths['/v1/audit'];
  return copy;
}

function newer() {
  const copy = structuredClone(document);
  copy.paths['/v1/audit'] ??= { get: { responses: {} } };
  return copy;
}

test('a server without the newest calls is enough, and the page says what is missing', async () => {
  const page = await browser.open(server, '#/audit', { mock: (tab) => answer(tab, [[/openapi/, older]]) });
  await page.getByText('The audit list needs a newer server').waitFor();
  await page.done();
});

test('a server whose document cannot be read is treated as one without them', async () => {
  const page = await browser.open(server, '#/audit', { mock: (tab) => answer(tab, [[/openapi/, () => [{}, 503]]]) });
  await page.getByText('The audit list needs a newer server').waitFor();
  await page.done();
});

test('the audit list shows who, when, what and why', async () => {
  const entry = { at: '2026-01-02T11:30:00.000Z', key_id: 'key_ops', role: 'admin', action: 'url.frozen', target: url(1).id, reason: 'maintenance', changed: [] };
  const page = await browser.open(server, '#/audit', {
    mock: (tab) =>
      answer(tab, [
        [/openapi/, newer],
        [/audit/, () => ({ items: [entry], next: null })],
      ]),
  });
  const row = page.getByRole('row', { name: /key_ops/ });
  await row.getByText('maintenance').waitFor();
  assert.equal(await row.getByRole('link').getAttribute('href'), `#/urls/${url(1).id}`);
  await assertAccessible(page, 'the audit list');
  await page.done();
});
