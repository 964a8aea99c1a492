// Calls and fields of newer servers are used where the OpenAPI document has them, and are not missed where it does not.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { Browser, assertAccessible, go } from './browser.mjs';
import { answer, delivery, url } from './mock.mjs';
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
  for (const path of ['/v1/audit', '/v1/replays', '/v1/explain', '/v1/subscriptions/test']) delete copy.paths[path];
  for (const path of ['/v1/urls', '/v1/subscriptions'])
    copy.paths[path].get.parameters = copy.paths[path].get.parameters.filter(({ name }) => !['url', 'failing'].includes(name));
  return copy;
}

function newer() {
  const copy = structuredClone(document);
  const call = { responses: {} };
  for (const path of ['/v1/audit', '/v1/replays', '/v1/explain']) copy.paths[path] ??= { get: call };
  copy.paths['/v1/subscriptions/test'] ??= { post: call };
  for (const name of ['failing', 'url']) copy.paths['/v1/urls'].get.parameters.push({ name, in: 'query' });
  copy.paths['/v1/subscriptions'].get.parameters.push({ name: 'url', in: 'query' });
  copy.components.schemas.NewSubscription.properties.secret = { type: 'string' };
  return copy;
}

test('a server without the newest calls is enough, and the page says what is missing', async () => {
  const page = await browser.open(server, '#/audit', { mock: (tab) => answer(tab, [[/openapi/, older]]) });
  await page.getByText('The audit list needs a newer server').waitFor();
  await go(page, '#/subscriptions/test', 'Test an event');
  await page.getByText('Testing needs a newer server').waitFor();
  await go(page, '#/replays', 'Replays');
  await page.getByText('No replays in this tab').waitFor();
  await go(page, '#/urls', 'URLs');
  await page.getByText('to list them here needs a newer server').waitFor();
  await go(page, '#/search?q=https://receiver.example', 'Search');
  await page.getByText('To search by URL needs a newer server').waitFor();
  await page.done();
});

test('a server whose document cannot be read is treated as one without them', async () => {
  const page = await browser.open(server, '#/audit', { mock: (tab) => answer(tab, [[/openapi/, () => [{}, 503]]]) });
  await page.getByText('The audit list needs a newer server').waitFor();
  await page.done();
});

test('failing URLs that are still enabled are listed with their last error and what they hold back', async () => {
  const failing = url(3, {
    state: 'enabled',
    failing_since: '2026-01-02T11:30:00.000Z',
    last_error: { kind: 'tls', status: null, text: 'the certificate has expired' },
    waiting: 7,
    parked: 0,
    subscriptions: 2,
    next_probe_at: null,
  });
  const page = await browser.open(server, '#/subscriptions', {
    mock: (tab) =>
      answer(tab, [
        [/openapi/, newer],
        [/urls$/, (query) => ({ items: query.get('failing') ? [failing, url(4)] : [], next: null })],
        [/urls\//, () => ({ ...failing, parked_more: false, history: [] })],
      ]),
  });
  await go(page, '#/urls', 'URLs');
  const row = page.getByRole('row', { name: /receiver-3/ });
  await row.getByText('tls').waitFor();
  await row.getByText('the certificate has expired').waitFor();
  await row.getByText('7 waiting').waitFor();
  assert.equal(await page.getByText('receiver-4').count(), 0, 'a disabled one is in the list of those already');
  await row.getByRole('link').click();
  await page.getByText('Failing: tls the certificate has expired').waitFor();
  await assertAccessible(page, 'a failing URL');
  await page.done();
});

test('the audit list shows who, when, what and why', async () => {
  const entry = { at: '2026-01-02T11:30:00.000Z', by: 'key_ops', action: 'url.freeze', target: url(1).id, why: 'maintenance' };
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

test('all replays are listed', async () => {
  const replay = {
    id: `job_${'1'.repeat(26)}`,
    state: 'running',
    url_id: url(1).id,
    since: null,
    until: null,
    states: ['dead'],
    matched: 40,
    more: false,
    done: 12,
    skipped: 0,
    created_at: '2026-01-02T11:30:00.000Z',
    ended_at: null,
  };
  const page = await browser.open(server, '#/replays', {
    mock: (tab) =>
      answer(tab, [
        [/openapi/, newer],
        [/replays$/, () => ({ items: [replay], next: null })],
        [/replays\//, () => replay],
      ]),
  });
  await page.getByText('12 of 40').waitFor();
  await page.getByRole('table').getByRole('link').click();
  await page.getByText('30 %').waitFor();
  await page.done();
});

test('an event says why it did not reach a subscription', async () => {
  const page = await browser.open(server, '#/events/event-1', {
    mock: (tab) =>
      answer(tab, [
        [/openapi/, newer],
        [
          /events\//,
          () => ({
            id: 'event-1',
            type: 'order.created',
            timestamp: '2026-01-02T11:30:00.000Z',
            subject: null,
            data: {},
            delivery_count: 1,
            deliveries: [delivery(1)],
            more: false,
          }),
        ],
        [/explain/, (query) => ({ text: `The filter on data.total refused it for ${query.get('subscription')}.`, expected: 10, found: 3 })],
      ]),
  });
  await page.getByLabel('Subscription').fill('sub_x');
  await page.getByRole('button', { name: 'Explain' }).click();
  await page.getByText('The filter on data.total refused it for sub_x.').waitFor();
  await assertAccessible(page, 'an explanation');
  await page.done();
});

test('a sample event is tested against the subscriptions', async () => {
  const page = await browser.open(server, '#/subscriptions/test', {
    mock: (tab) =>
      answer(tab, [
        [/openapi/, newer],
        [
          /subscriptions\/test/,
          () => ({
            items: [
              { subscription_id: 'sub_a', url: url(1).url, matches: true },
              { subscription_id: 'sub_b', url: url(2).url, matches: false, why: 'data.total is 3, and the filter wants gte 10' },
            ],
          }),
        ],
      ]),
  });
  await page.getByLabel('Type').fill('order.created');
  await page.getByLabel('Data').fill('{"total": 3}');
  await page.getByRole('button', { name: 'Test', exact: true }).click();
  await page.getByText('data.total is 3, and the filter wants gte 10').waitFor();
  await page.getByLabel('Data').fill('{not json');
  await page.getByRole('button', { name: 'Test', exact: true }).click();
  await page.getByText('The data is not JSON').waitFor();
  await page.done();
});

test('URLs are found by how they begin', async () => {
  const page = await browser.open(server, '#/subscriptions', {
    mock: (tab) =>
      answer(tab, [
        [/openapi/, newer],
        [/urls$/, (query) => ({ items: query.get('url') ? [url(5)] : [], next: null })],
        [/events\//, () => [{ title: 'Not Found', detail: 'no' }, 404]],
      ]),
  });
  await go(page, '#/search?q=https://receiver-5', 'Search');
  await page.getByRole('link', { name: /receiver-5/ }).waitFor();
  await page.done();
});

test('an own secret can be given where the server takes one', async () => {
  const page = await browser.open(server, '#/subscriptions/new', { mock: (tab) => answer(tab, [[/openapi/, newer]]) });
  await page.getByLabel('Own secret').waitFor();
  await page.done();
});
