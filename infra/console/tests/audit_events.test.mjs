// The list of events and the audit list, as the server answers them.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { Browser, assertAccessible, go } from './browser.mjs';
import { Server } from './server.mjs';

let server;
let browser;
let subscription;

before(async () => {
  [server, browser] = await Promise.all([Server.start(), Browser.start()]);
  subscription = await server.subscribe('200', ['order.*']);
  for (const [id, type, subject] of [
    ['first', 'order.created', 'orders/1'],
    ['second', 'order.paid', 'orders/1'],
    ['third', 'order.created', 'orders/2'],
    ['fourth', 'unwanted', undefined],
  ])
    await server.call('POST', '/v1/events', { id, type, subject, data: 1 });
  await server.call('PATCH', `/v1/subscriptions/${subscription.id}`, { description: 'Orders', auth_token: 'hidden-token' });
});
after(async () => {
  await browser?.stop();
  await server?.stop();
});

const events = (page) => page.getByRole('table').getByRole('link').allTextContents();

test('events are listed newest first, and found by type and subject', async () => {
  const page = await browser.open(server, '#/events');
  await page.getByText('4 in all').first().waitFor();
  assert.deepEqual(await events(page), ['fourth', 'third', 'second', 'first']);
  await page.getByLabel('Type').fill('order.created');
  await page.getByRole('button', { name: 'Apply' }).click();
  await page.getByText('2 in all').first().waitFor();
  assert.deepEqual(await events(page), ['third', 'first']);
  await page.getByLabel('Type').fill('');
  await page.getByLabel('Subject').fill('orders/1');
  await page.getByRole('button', { name: 'Apply' }).click();
  await page.getByRole('link', { name: 'second' }).waitFor();
  assert.deepEqual(await events(page), ['second', 'first']);
  assert.match(page.url(), /subject=orders%2F1/, 'the filters are in the address');
  await assertAccessible(page, 'the list of events');
  await page.getByRole('link', { name: 'second' }).click();
  await page.getByRole('heading', { name: /second/ }).waitFor();
  await go(page, '#/events?subject=nothing', 'Events');
  await page.getByText('No such events').first().waitFor();
  await page.done();
});

test('the audit list shows who changed what, and why, but no values', async () => {
  // Not before: Holdfast posts an event of its own about it.
  await server.call('POST', `/v1/urls/${subscription.url_id}/freeze`, { reason: 'maintenance <b>until</b> Monday' });
  const page = await browser.open(server, '#/audit');
  const frozen = page.getByRole('row', { name: /url\.frozen/ });
  await frozen.getByText('maintenance <b>until</b> Monday').waitFor();
  await frozen.getByText('development').waitFor();
  assert.equal(await frozen.getByRole('link').getAttribute('href'), `#/urls/${subscription.url_id}`);
  await page.getByRole('row', { name: /subscription\.updated/ }).getByText('changed auth_token, description').waitFor();
  assert.equal(await page.getByText('hidden-token').count(), 0);
  await assertAccessible(page, 'the audit list of the server');
  await page.done();
});
