// The pictures of the walk-through: five URLs in trouble, each for another reason.

import { join } from 'node:path';
import { after, before, test } from 'node:test';

import { Browser } from './browser.mjs';
import { Server, until } from './server.mjs';

let server;
let browser;
let shop;

before(async () => {
  [server, browser] = await Promise.all([Server.start({ speed: 600, flags: ['--http-timeout-ms', '1000'] }), Browser.start()]);
  await Promise.all([server.answer('crm', 'hang'), server.answer('partner', 410), server.answer('shop', 500)]);
  for (const url of [
    'http://erp.invalid/hooks',
    `${server.base.replace('http:', 'https:')}/hooks`,
    server.receiver('crm'),
    server.receiver('partner'),
    server.receiver('shop'),
  ])
    shop = await server.call('POST', '/v1/subscriptions', { url, event_types: ['order.*'] });
  await server.post('order.created', 12, 'order');
  await until('all are in trouble', async () => (await server.call('GET', '/v1/urls?failing=true')).items.length === 5);
});
after(async () => {
  await browser?.stop();
  await server?.stop();
});

async function picture(name, hash, ready, height) {
  const page = await browser.open(server, hash, { viewport: { width: 1280, height } });
  await ready(page);
  await page.locator('.speed:not([hidden])').waitFor();
  await page.screenshot({ path: join(process.env.CONSOLE_PICTURES, `${name}.png`), scale: 'css' });
  await page.done();
}

const seen = (text) => (page) => page.getByText(text).first().waitFor();

test('pictures of the walk-through', async () => {
  await picture('walk-urls', '#/urls?order=longest', seen('5 in all'), 620);
  const list = (page) => page.getByText('10 shown').first().waitFor();
  await picture('walk-url', `#/urls/${shop.url_id}?list=waiting`, list, 760);
  const [waiting] = await server.deliveries({ event: 'order-7', subscription: shop.id });
  await picture('walk-delivery', `#/deliveries/${waiting.id}`, seen(/It has not arrived because/), 760);
  await server.answer('shop', 200);
  await server.call('POST', `/v1/urls/${shop.url_id}/enable`, { reason: 'fixed in shop 2.1' });
  await until('all have arrived', async () => (await server.deliveries({ url: shop.url_id, state: 'delivered' })).length === 12, 90_000);
  const { id } = await server.call('POST', `/v1/urls/${shop.url_id}/replay`, { states: ['dead', 'delivered'] });
  await until('it is done', async () => (await server.call('GET', `/v1/replays/${id}`)).state === 'done', 60_000);
  await picture('walk-replay', `#/replays/${id}`, seen('100 %'), 480);
});
