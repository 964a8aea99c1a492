// A server with 100,000 URLs, of which 15,000 are in trouble: pages show what they show with ten, and nothing stands still.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';

import { Browser, assertAccessible, go } from './browser.mjs';
import { Server } from './server.mjs';

const URLS = 100_000;
const DELIVERIES = 40_000;
/** For how long a page may not react. A page of 50 rows takes a tenth of this. */
const MAX_STILL_MS = 500;
const PAGE_MS = 5_000;

let server;
let browser;

before(async () => {
  const fill = (folder) => promisify(execFile)(process.env.HOLDFAST_FILLER, [folder, URLS, DELIVERIES, Date.now()].map(String));
  [server, browser] = await Promise.all([Server.start({ fill }), Browser.start()]);
});
after(async () => {
  await browser?.stop();
  await server?.stop();
});

/** A page that counts its requests to the API and measures how long it stands still. */
async function open(hash) {
  const page = await browser.open(server, hash);
  page.asked = [];
  page.on('request', (request) => {
    const { pathname, search } = new URL(request.url());
    if (pathname.startsWith('/v1/')) page.asked.push(pathname + search);
  });
  await page.evaluate(() => {
    window.longest = 0;
    new PerformanceObserver((list) => {
      for (const each of list.getEntries()) window.longest = Math.max(window.longest, each.duration);
    }).observe({ type: 'longtask', buffered: true });
  });
  return page;
}

/** Goes to a page of the console, waits until it is `ready`, and checks what that cost. */
async function visit(page, hash, heading, ready, maxRequests) {
  page.asked.length = 0;
  const began = performance.now();
  await go(page, hash, heading);
  await ready();
  const took = performance.now() - began;
  const longest = await page.evaluate(() => window.longest);
  assert.ok(took < PAGE_MS, `${hash} took ${took} ms`);
  assert.ok(longest < MAX_STILL_MS, `${hash} stood still for ${longest} ms`);
  assert.ok(page.asked.length <= maxRequests, `${hash} made ${page.asked.length} requests: ${page.asked.join(' ')}`);
}

const rows = (page) => page.locator('main tbody tr').count();

test('the overview says how many URLs are in trouble', async () => {
  const page = await open('#/urls?show=frozen');
  await visit(page, '#/', 'Overview', () => page.getByText('1,000+').first().waitFor(), 15);
  await assertAccessible(page, 'the overview of 100,000 URLs');
  await page.done();
});

test('URLs in trouble are paged through, in every order', async () => {
  const page = await open('#/subscriptions');
  // Not what is read aloud, which stays when the page changes.
  const shown = (count) => page.locator('main').getByText(`${count} shown`).waitFor();
  for (const order of ['state', 'longest', 'newest', 'latest']) {
    await visit(page, `#/urls?order=${order}`, 'URLs', () => shown(50), 3);
    assert.equal(await rows(page), 50, order);
    await page.getByRole('button', { name: 'Show more' }).click();
    await shown(100);
    assert.equal(await rows(page), 100, order);
    await go(page, '#/subscriptions', 'Subscriptions');
  }
  for (const state of ['frozen', 'disabled', 'enabled', 'all']) {
    await visit(page, `#/urls?show=${state}`, 'URLs', () => shown(50), 5);
    assert.equal(await rows(page), 50, state);
    await go(page, '#/subscriptions', 'Subscriptions');
  }
  const longest = await page.evaluate(() => window.longest);
  assert.ok(longest < MAX_STILL_MS, `it stood still for ${longest} ms`);
  await page.done();
});

test('one of the URLs, with very many parked deliveries', async () => {
  const [busy] = (await server.call('GET', `/v1/urls?url=${encodeURIComponent('https://customer-1.example/webhooks')}`)).items;
  assert.equal(busy.state, 'disabled');
  const page = await open('#/subscriptions');
  await visit(page, `#/urls/${busy.id}`, /customer-1/, () => page.locator('main').getByText('10 shown').waitFor(), 8);
  await page.getByText('status 500').first().waitFor();
  await page.getByText('1,000+').first().waitFor();
  await page.done();
});

test('a URL is found by how it begins, and by itself', async () => {
  const page = await open('#/subscriptions');
  const link = (name) => page.getByRole('link', { name }).first().waitFor();
  await visit(page, '#/search?q=https://customer-77', 'Search', () => link(/customer-77/), 8);
  assert.ok((await rows(page)) <= 100);
  await visit(page, '#/search?q=https://customer-99999.example/webhooks', 'Search', () => link(/customer-99999/), 8);
  await page.done();
});
