// What customers and receivers write is shown as text and does nothing.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { Browser, go } from './browser.mjs';
import { answer, delivery, overview, url } from './mock.mjs';
import { Server, until } from './server.mjs';

const SCRIPT = `"><img src=x onerror="window.hacked=1"><script>window.hacked=1</script>`;
const TEXTS = [
  SCRIPT,
  `javascript:window.hacked=1`,
  `<svg/onload=window.hacked=1>`,
  `{{constructor.constructor('window.hacked=1')()}}`,
  `</title><script>window.hacked=1</script>`,
  '\u202Egnp.exe',
  '\u0000\u0007',
  'x'.repeat(4000),
];

let server;
let browser;

before(async () => {
  [server, browser] = await Promise.all([Server.start({ speed: 20_000 }), Browser.start()]);
});
after(async () => {
  await browser?.stop();
  await server?.stop();
});

async function assertInert(page, what) {
  const found = await page.evaluate(() => ({
    hacked: window.hacked,
    scripts: document.scripts.length,
    images: document.images.length,
    frames: document.querySelectorAll('iframe, object, embed').length,
    links: [...document.links].map((link) => link.getAttribute('href')).filter((href) => !/^(#|\/console|\/(?!\/))/.test(href)),
    wide: document.documentElement.scrollWidth > window.innerWidth,
  }));
  assert.deepEqual(found, { hacked: undefined, scripts: 2, images: 0, frames: 0, links: [], wide: false }, what);
}

test('hostile text of events, subscriptions, reasons and answers is inert on a real server', async () => {
  await server.answer('hostile', 500);
  const text = TEXTS.slice(0, 5).join(' ').slice(0, 1000);
  const subscription = await server.call('POST', '/v1/subscriptions', {
    url: `${server.receiver('hostile')}?q=${encodeURIComponent(SCRIPT)}`,
    event_types: ['*'],
    description: text,
    filters: [{ field: 'data.<img src=x onerror=hacked=1>', op: 'ne', value: SCRIPT }],
  });
  const id = SCRIPT.replaceAll(' ', '+');
  await server.call('POST', '/v1/events', { id, type: 'order.created', subject: text, data: { [SCRIPT]: TEXTS.slice(0, 6) } });
  await server.call('POST', `/v1/urls/${subscription.url_id}/freeze`, { reason: text });
  const [found] = await until('it is shown', async () => {
    const list = await server.deliveries({ url: subscription.url_id });
    return list.length > 0 && list;
  });
  const page = await browser.open(server);
  for (const [hash, heading] of [
    ['#/urls?show=all', 'URLs'],
    [`#/urls/${subscription.url_id}`, /hostile/],
    ['#/deliveries', 'Deliveries'],
    [`#/deliveries/${found.id}`, /img.src/],
    [`#/events/${encodeURIComponent(id)}`, /img.src/],
    ['#/subscriptions', 'Subscriptions'],
    [`#/subscriptions/${subscription.id}`, /img.src/],
    [`#/subscriptions/${subscription.id}/edit`, 'Edit subscription'],
    [`#/search?q=${encodeURIComponent(SCRIPT)}`, 'Search'],
    [`#/search?q=${encodeURIComponent(id)}`, 'Search'],
  ]) {
    await go(page, hash, heading);
    await page.locator('.loading').first().waitFor({ state: 'detached' });
    await assertInert(page, hash);
  }
  await page.done();
});

test('hostile answers of the server itself are inert', async () => {
  for (const text of TEXTS) {
    const hostileUrl = url(1, {
      url: text,
      reason: text,
      state: text.slice(0, 20),
      last_error: { kind: text, status: null, text },
      parked: 1,
      parked_more: false,
      tenant: text,
      history: [{ at: url(1).since, from: text, to: text, by: text, why: text }],
    });
    const hostileDelivery = delivery(1, {
      event_id: text,
      type: text,
      url: text,
      tenant: text,
      attempts: [{ ...delivery(1).attempts[0], error: text, excerpt: text }],
    });
    const page = await browser.open(server, '#/', {
      mock: (tab) =>
        answer(tab, [
          [/overview/, () => overview()],
          [/urls$/, () => ({ items: [hostileUrl], next: null })],
          [/urls\//, () => hostileUrl],
          [/deliveries$/, () => ({ items: [hostileDelivery], next: null })],
          [/deliveries\//, () => hostileDelivery],
          [
            /attempts/,
            () => ({
              items: [{ ...delivery(1).attempts[0], delivery_id: text, event_id: text, type: text, url_id: url(1).id, error: text }],
              left_out: 0,
              next: text,
            }),
          ],
          [
            /subscriptions/,
            () => [
              {
                title: text,
                detail: text,
                errors: [
                  { field: text, detail: text },
                  { field: text, detail: text },
                ],
              },
              400,
            ],
          ],
        ]),
    });
    await page.getByRole('region', { name: 'Latest attempts' }).getByRole('row').nth(1).waitFor();
    await assertInert(page, `overview with ${text.slice(0, 40)}`);
    for (const hash of ['#/urls?show=all', `#/urls/${url(1).id}`, '#/deliveries', `#/deliveries/${delivery(1).id}`, '#/subscriptions']) {
      await page.evaluate((to) => {
        location.hash = to;
      }, hash);
      await page.locator('main .loading').first().waitFor({ state: 'detached' });
      await assertInert(page, `${hash} with ${text.slice(0, 40)}`);
    }
    await page.done();
  }
});

test('the policy stops a script that got into the page all the same', async () => {
  const page = await browser.open(server, '#/', { expectErrors: true });
  await page.evaluate(() => {
    const script = document.createElement('script');
    script.textContent = 'window.hacked = 1';
    document.body.append(script);
    document.body.setAttribute('onclick', 'window.hacked = 1');
    document.body.click();
  });
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  assert.ok(
    page.errors.some((error) => error.includes('Content Security Policy')),
    page.errors.join('\n'),
  );
  await page.done();
});

test('the page asks no other server for anything', async () => {
  const asked = [];
  const page = await browser.open(server, '#/', {
    mock: (tab) => {
      tab.on('request', (request) => asked.push(new URL(request.url()).origin));
    },
  });
  await go(page, '#/urls', 'URLs');
  assert.deepEqual([...new Set(asked)], [server.base]);
  await page.done();
});
