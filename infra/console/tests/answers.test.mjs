// What an operator asks when something does not arrive, answered by a real server.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { Browser, PHONE, assertAccessible, go } from './browser.mjs';
import { Server, until } from './server.mjs';

let server;
let browser;
const subscriptions = {};

before(async () => {
  [server, browser] = await Promise.all([Server.start({ speed: 60 }), Browser.start()]);
  subscriptions.shop = await server.subscribe('shop', ['order.*'], {
    description: 'Large orders',
    filters: [{ field: 'data.total', op: 'gte', value: 100 }],
  });
  subscriptions.other = await server.subscribe('other', ['invoice.*']);
  subscriptions.erp = await server.subscribe('erp', ['erp.*']);
  subscriptions.gone = await server.subscribe('gone', ['gone.*']);
  await Promise.all([server.answer('erp', 500), server.answer('gone', 410)]);
  await server.post('gone.changed', 12);
  await server.post('erp.synced', 110);
  await server.post('order.created', 1, 'small', () => ({ total: 3 }));
  await server.post('order.created', 1, 'large', () => ({ total: 300 }));
  const url = (name) => server.url(subscriptions[name].url_id);
  await until('one is failing', async () => (await url('gone')).failing);
  await until('one is disabled', async () => (await url('erp')).state === 'disabled');
});
after(async () => {
  await browser?.stop();
  await server?.stop();
});

test('URLs in trouble are listed with their last error, in the order that is asked for', async () => {
  const page = await browser.open(server, '#/urls');
  const states = () => page.locator('tbody tr .pill').allTextContents();
  await page.getByText('2 in all').first().waitFor();
  assert.deepEqual(await states(), ['disabled', 'failing']);
  const gone = page.getByRole('row', { name: /receiver\/gone/ });
  await gone.getByText('status 410').waitFor();
  await page.getByLabel('Order').selectOption({ label: 'Failing longest first' });
  await until('it is sorted', async () => (await states()).join() === 'failing,disabled');
  await page.getByLabel('Order').selectOption({ label: 'Failing shortest first' });
  await until('it is sorted the other way', async () => (await states()).join() === 'disabled,failing');
  await page.reload();
  await until('the choice is kept', async () => (await page.getByLabel('Order').inputValue()) === 'newest');
  await gone.getByRole('link').click();
  await page.getByText('Failing: status 410').waitFor();
  await page.getByText('First to expire').waitFor();
  await page.getByText('of recent attempts').waitFor();
  await assertAccessible(page, 'a failing URL');
  await page.done();
});

test('a delivery names the state of its URL and the whole error', async () => {
  const [parked] = await until('one is parked', async () => {
    const found = await server.deliveries({ url: subscriptions.erp.url_id, state: 'parked' });
    return found.length > 0 && found;
  });
  const page = await browser.open(server, `#/deliveries/${parked.id}`);
  await page.getByText(/The URL is disabled since .*attempts failed/).waitFor();
  await page.getByText('status: the receiver answered 500').first().waitFor();
  await assertAccessible(page, 'a parked delivery');
  await page.done();
});

test('an event says why it did not reach a subscription', async () => {
  const page = await browser.open(server, '#/events/large-0');
  const ask = async (name) => {
    await page.getByLabel('Subscription').fill(subscriptions[name].id);
    await page.getByRole('button', { name: 'Explain' }).click();
  };
  await ask('other');
  await page.getByText('It asks for').waitFor();
  await page.getByText('invoice.*').first().waitFor();
  await ask('shop');
  await page.getByText('Arrived', { exact: true }).waitFor();
  await assertAccessible(page, 'an explanation');
  // The address has the question, so that it can be sent to a colleague.
  await page.reload();
  await page.getByText('Arrived', { exact: true }).waitFor();
  await page.done();
});

test('a sample event is tested against the subscriptions', async () => {
  const page = await browser.open(server, '#/subscriptions/test', { viewport: PHONE });
  const test = async (data) => {
    await page.getByLabel('Data').fill(data);
    await page.getByRole('button', { name: 'Test', exact: true }).click();
  };
  await page.getByLabel('Type').fill('order.created');
  await test('{"total": 3}');
  await page.getByText('data.total gte 100').waitFor();
  await page.getByText('0 subscriptions of').waitFor();
  await test('{}');
  await page.getByText('nothing', { exact: true }).waitFor();
  await test('{"total": 300}');
  await page.getByText('1 subscription of').waitFor();
  await assertAccessible(page, 'a tested event');
  await test('{not json');
  await page.getByText('The data is not JSON').waitFor();
  await page.done();
});

test('a disabled URL is pinged only by force, a frozen one not at all', async () => {
  const page = await browser.open(server, `#/subscriptions/${subscriptions.erp.id}`);
  const button = (name) => page.getByRole('button', { name, exact: true });
  await button('Ping').click();
  await button('Ping anyway').click();
  await page.getByText('The ping failed (status 500)').waitFor();
  await server.call('POST', `/v1/urls/${subscriptions.other.url_id}/freeze`);
  await go(page, `#/subscriptions/${subscriptions.other.id}`, /other/);
  await button('Ping').click();
  await page.getByText('Not possible now').waitFor();
  assert.equal(await button('Ping anyway').count(), 0);
  await page.done();
});

test('all replays are listed, with the URL that they are of', async () => {
  const { id } = await server.call('POST', `/v1/urls/${subscriptions.shop.url_id}/replay`, { states: ['delivered'] });
  await until('it is done', async () => (await server.call('GET', `/v1/replays/${id}`)).state === 'done');
  const page = await browser.open(server, '#/replays');
  await page.getByRole('row', { name: /receiver\/shop.*1 of 1/ }).getByRole('link').click();
  await page.getByText('100 %').waitFor();
  await page.getByRole('link', { name: /receiver\/shop/ }).waitFor();
  await page.done();
});

test('a URL is found by itself and by how it begins', async () => {
  const page = await browser.open(server, `#/search?q=${encodeURIComponent(server.receiver('sh'))}`);
  await page.getByRole('row', { name: /receiver\/shop/ }).waitFor();
  await go(page, `#/search?q=${encodeURIComponent(server.receiver('shop'))}`, 'Search');
  await page.locator('a.hit').getByText('/dev/receiver/shop').waitFor();
  await go(page, '#/search?q=https://nowhere.example/', 'Search');
  await page.getByText('No URL begins so').first().waitFor();
  await page.done();
});

test('an own secret is taken as it is and not shown', async () => {
  const page = await browser.open(server, '#/subscriptions/new');
  await page.getByLabel('URL', { exact: true }).fill(server.receiver('mine'));
  await page.getByLabel('Own secret').fill(`whsec_${Buffer.alloc(32, 7).toString('base64')}`);
  await page.getByRole('button', { name: 'Create' }).click();
  await page.getByRole('button', { name: 'Rotate secret' }).waitFor();
  assert.equal(await page.getByRole('dialog').count(), 0);
  await page.done();
});
