// The pictures of the README and the guides: a server with a day like any other, made in half a minute.

import { after, before, test } from 'node:test';
import { join } from 'node:path';

import { Browser, PHONE } from './browser.mjs';
import { Server, until } from './server.mjs';

/** An hour takes 15 seconds, so that the charts of the last hour fill up while the test runs. */
const SPEED = 240;
const ROUNDS = 66;
/** When a receiver fails for eight minutes. */
const OUTAGE = 36;

let server;
let browser;
let broken;
let frozen;
let traffic;
let rounds = 0;
let isOver = false;

before(async () => {
  [server, browser] = await Promise.all([Server.start({ speed: SPEED }), Browser.start()]);
  for (const [name, description] of [
    ['shop', 'Web shop'],
    ['billing', 'Invoices to accounting'],
    ['warehouse', 'Picking lists'],
    ['crm', 'Customer updates'],
  ])
    await server.subscribe(name, [`${name}.*`], { description });
  broken = (await server.subscribe('search', ['search.*'], { description: 'Search index' })).url_id;
  frozen = (await server.subscribe('partner', ['partner.*'], { description: 'Partner feed' })).url_id;
  const erp = (
    await server.subscribe('erp', ['erp.*'], { description: 'The old ERP', filters: [{ field: 'data.number', op: 'gte', value: 0 }] })
  ).url_id;
  await Promise.all([server.answer('search', 503), server.answer('partner', 410), server.answer('erp', 500)]);
  await server.post('partner.changed', 3, 'partner');
  traffic = keepPosting();
  await until('an hour is full', () => rounds >= ROUNDS);
  await server.call('POST', `/v1/urls/${frozen}/freeze`, { reason: 'Partner moves to a new data centre until Friday' });
  await server.post('partner.changed', 2, 'partner-late');
  await until('it is disabled', async () => (await server.url(broken)).state === 'disabled');
  await until('the ERP has failed a few times', async () =>
    (await server.deliveries({ url: erp, state: 'waiting' })).some((each) => each.attempts.length >= 5),
  );
});
after(async () => {
  isOver = true;
  await traffic;
  await browser?.stop();
  await server?.stop();
});

/** One round for each minute of the server's clock, until the last picture is made. */
async function keepPosting() {
  const now = async () => Date.parse((await server.call('GET', '/v1/overview?minutes=1')).at);
  const began = await now();
  for (; !isOver; rounds += 1) {
    const round = rounds;
    const wave = Math.round(14 + 9 * Math.sin(round / 5));
    await Promise.all([
      server.post('shop.paid', wave, `order-${1000 + round}`),
      server.post('billing.paid', Math.round(wave / 2), `invoice-${1000 + round}`),
      server.post('warehouse.picked', 4, `pick-${round}`),
      server.post('crm.updated', 5, `customer-${round}`),
      round % 3 === 0 ? server.post('search.indexed', 6, `search-${round}`) : null,
      round % 12 === 0 ? server.post('erp.synced', 1, `erp-${round}`) : null,
    ]);
    if (round === OUTAGE) await server.answer('crm', 502);
    if (round === OUTAGE + 8) await server.answer('crm', 200);
    await until('the minute is over', async () => (await now()) >= began + (round + 1) * 60_000);
  }
}

async function picture(name, hash, ready, options) {
  const page = await browser.open(server, hash, options);
  await ready(page);
  // The speed of the clock is known after a moment, and is part of the truth.
  await page.locator('.speed:not([hidden])').waitFor();
  await page.screenshot({ path: join(process.env.CONSOLE_PICTURES, `${name}.png`), scale: 'css' });
  await page.done();
}

const seen = (text) => (page) => page.getByText(text).first().waitFor();
const table = (page) => page.getByRole('table').last().waitFor();

test('pictures of the overview', async () => {
  for (const colorScheme of ['light', 'dark']) {
    await picture(
      `overview-${colorScheme}`,
      '#/',
      async (page) => {
        await table(page);
        await page.locator('.live.on').waitFor();
      },
      { colorScheme, viewport: { width: 1280, height: 800 } },
    );
  }
  await picture('overview-phone', '#/', table, { viewport: PHONE });
});

test('pictures of URLs', async () => {
  await picture('urls', '#/urls?show=all', table, { viewport: { width: 1280, height: 760 } });
  await picture('url', `#/urls/${broken}`, table, { viewport: { width: 1280, height: 860 } });
  await picture(
    'url-dialog',
    `#/urls/${frozen}`,
    async (page) => {
      await page.getByRole('button', { name: 'Enable', exact: true }).click();
      await page.getByRole('dialog').getByLabel('Reason').fill('The partner is back');
    },
    { colorScheme: 'dark', viewport: { width: 1280, height: 760 } },
  );
});

test('pictures of deliveries', async () => {
  const waiting = (await server.deliveries({ state: 'waiting', limit: 100 })).sort(
    (one, other) => other.attempts.length - one.attempts.length,
  )[0];
  await picture('delivery', `#/deliveries/${waiting.id}`, seen(/It has not arrived because/), { viewport: { width: 1280, height: 760 } });
  await picture('delivery-phone', `#/deliveries/${waiting.id}`, seen(/It has not arrived because/), {
    colorScheme: 'dark',
    viewport: PHONE,
  });
  const parked = (await server.deliveries({ url: frozen, state: 'parked' }))[0];
  await picture('delivery-parked', `#/deliveries/${parked.id}`, seen(/is held back because its URL was frozen/), {
    colorScheme: 'dark',
    viewport: { width: 1280, height: 640 },
  });
});

test('pictures of subscriptions', async () => {
  await picture('subscriptions', '#/subscriptions', table, { viewport: { width: 1280, height: 640 } });
});
