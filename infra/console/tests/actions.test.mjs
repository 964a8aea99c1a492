// Every action of the console, on a real server.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { Browser, go } from './browser.mjs';
import { Server, until } from './server.mjs';

let server;
let browser;
/** 48 hours take 9 seconds. */
const SPEED = 20_000;

before(async () => {
  [server, browser] = await Promise.all([Server.start({ speed: SPEED }), Browser.start()]);
});
after(async () => {
  await browser?.stop();
  await server?.stop();
});

const heading = (page, name) => page.getByRole('heading', { level: 1, name });
const button = (page, name) => page.getByRole('button', { name, exact: true });
const link = (page, name) => page.getByRole('link', { name });

test('a wrong key is refused, the right one opens the console, signing out forgets it', async () => {
  const page = await browser.open(server, '', { key: null });
  await page.getByLabel('Key').fill('hf_wrong');
  await button(page, 'Open the console').click();
  await page.getByText('This key is not valid').waitFor();
  await page.getByLabel('Key').fill(server.key);
  await page.keyboard.press('Enter');
  await heading(page, 'Overview').waitFor();
  const stored = () =>
    page.evaluate(() => [Object.values(sessionStorage).join(' '), Object.values(localStorage).join(' '), document.cookie]);
  const [inTab, inBrowser, cookies] = await stored();
  assert.ok(inTab.includes(server.key));
  assert.equal(inBrowser + cookies, '', 'the key is nowhere but in this tab');
  await page.reload();
  await heading(page, 'Overview').waitFor();
  await button(page, 'Sign out').click();
  await page.getByText('You are signed out').waitFor();
  assert.equal((await stored()).join(''), '');
  await page.done();
});

test('a deleted key leads back to signing in', async () => {
  const key = await server.call('POST', '/v1/keys', { tenant: 'default', role: 'admin' });
  const page = await browser.open(server, '#/urls', { key: key.key });
  await server.call('DELETE', `/v1/keys/${key.id}`);
  await until('the key is refused', async () => {
    await page.evaluate(() => {
      location.hash = location.hash === '#/urls' ? '#/deliveries' : '#/urls';
    });
    return page.getByText('This key is no longer valid').isVisible();
  });
  await page.done();
});

test('the overview counts events as they come', async () => {
  await server.subscribe('counted', ['counted.*']);
  const page = await browser.open(server);
  await page.getByText('live', { exact: true }).waitFor();
  await page.getByRole('button', { name: '24 hours' }).click();
  await server.post('counted.made', 5);
  // At this speed a day passes in four seconds: the feed shows what the charts have already left behind.
  await page.getByRole('region', { name: 'Latest attempts' }).getByText('counted.made-4').waitFor();
  assert.match(page.url(), /range=24/);
  await page.done();
});

test('a URL is frozen, enabled and disabled, with a reason in its history', async () => {
  const { url_id: id } = await server.subscribe('steered', ['steered.*']);
  const page = await browser.open(server, `#/urls/${id}`);
  await button(page, 'Freeze').click();
  const dialog = page.getByRole('dialog', { name: 'Freeze this URL?' });
  await button(dialog, 'Cancel').click();
  await dialog.waitFor({ state: 'detached' });
  assert.equal((await server.url(id)).state, 'enabled', 'cancel changes nothing');

  await button(page, 'Freeze').click();
  await dialog.getByLabel('Reason').fill('moving house');
  await button(dialog, 'Freeze').click();
  await page.getByText('Frozen: moving house').waitFor();
  assert.deepEqual([(await server.url(id)).state, (await server.url(id)).reason], ['frozen', 'moving house']);
  await server.post('steered.one', 2);
  await page.getByRole('button', { name: 'Waiting' }).click();
  await page.getByText('No waiting deliveries').first().waitFor();
  await until('they are parked', async () => (await server.url(id)).parked === 2);
  await page.getByRole('button', { name: 'Parked' }).click();
  await link(page, 'steered.one-1').waitFor();

  await button(page, 'Enable').click();
  await page.getByRole('dialog').getByLabel('Reason').fill('unpacked');
  await button(page.getByRole('dialog'), 'Enable').click();
  await page
    .getByText(/Enabled\. 2 parked deliveries are released/)
    .first()
    .waitFor();
  await page.getByRole('region', { name: 'History' }).getByText('unpacked').waitFor();

  await button(page, 'Disable').click();
  await button(page.getByRole('dialog'), 'Disable').click();
  await page.getByRole('region', { name: 'History' }).getByText('from enabled').nth(1).waitFor();
  const { history } = await server.url(id);
  assert.deepEqual(
    history
      .map(({ to }) => to)
      .reverse()
      .slice(0, 3),
    ['frozen', 'enabled', 'disabled'],
  );
  await page.done();
});

test('an action that the server refuses says why and stays open', async () => {
  const { url_id: id } = await server.subscribe('stubborn', ['stubborn.*']);
  const page = await browser.open(server, `#/urls/${id}`);
  await page.route('**/freeze*', (route) =>
    route.fulfill({
      status: 503,
      contentType: 'application/problem+json',
      body: '{"title":"Service Unavailable","status":503,"detail":"A dependency is unavailable; retry later."}',
    }),
  );
  await button(page, 'Freeze').click();
  const dialog = page.getByRole('dialog');
  await button(dialog, 'Freeze').click();
  await dialog.getByText('A dependency is unavailable; retry later.').waitFor();
  await page.unroute('**/freeze*');
  await button(dialog, 'Freeze').click();
  await page.getByText('The URL is frozen.').first().waitFor();
  await page.done();
});

test('dead deliveries of a URL are replayed, with progress to the end', async () => {
  await server.answer('dying', 500);
  const { url_id: id } = await server.subscribe('dying', ['dying.*']);
  await server.post('dying.slowly', 3);
  await until('they are dead', async () => (await server.deliveries({ url: id, state: 'dead' })).length === 3, 60_000);
  await server.answer('dying', 200);
  const page = await browser.open(server, `#/urls/${id}?list=dead`);
  await link(page, 'dying.slowly-2').waitFor();
  await button(page, 'Replay…').click();
  await button(page.getByRole('dialog'), 'Start the replay').click();
  await page.getByText('3 replayed, of 3').waitFor();
  await page.getByText('100 %', { exact: true }).waitFor();
  await until('they arrive', async () => (await server.deliveries({ url: id, state: 'delivered' })).length === 3);
  await go(page, '#/replays', 'Replays');
  await page.getByRole('table').getByRole('link').first().click();
  await heading(page, 'Replay').waitFor();
  await page.getByText('3 replayed, of 3').waitFor();
  await page.done();
});

test('a delivery shows its attempts on the time line and says why it has not arrived', async () => {
  await server.answer('late', 500);
  const { url_id: id } = await server.subscribe('late', ['late.*']);
  await server.post('late.once', 1);
  const [{ id: delivery }] = await until(
    'it is dead',
    async () => {
      const dead = await server.deliveries({ url: id, state: 'dead' });
      return dead.length === 1 && dead;
    },
    60_000,
  );
  const page = await browser.open(server, `#/deliveries/${delivery}`);
  await page.getByText('It was given up because all 12 attempts failed; the last one ended with status 500').waitFor();
  // It is drawn when its width is known.
  await page.locator('.timeline-plot .station.failure').nth(11).waitFor({ state: 'attached' });
  assert.equal(await page.locator('.timeline-plot .station.failure').count(), 12);
  assert.match(
    await page.locator('.timeline-plot svg').getAttribute('aria-label'),
    /First attempt: failure, status 500\..*Retry 11, .* later/,
  );
  assert.equal(await page.getByRole('table', { name: 'Attempts' }).getByRole('row').count(), 13);
  await page.getByText('Beginning of the answer').first().click();
  await page.getByText("the receiver 'late' responds 500").first().waitFor();
  await server.answer('late', 200);
  await button(page, 'Replay').click();
  await button(page.getByRole('dialog'), 'Replay').click();
  await page.getByText(/It has arrived with (the first attempt|retry \d+) of its replay \(number 1\): the receiver answered 200/).waitFor();
  await button(page, 'First schedule').click();
  // It is drawn when its width is known.
  await page.locator('.timeline-plot .station.failure').nth(11).waitFor({ state: 'attached' });
  assert.equal(await page.locator('.timeline-plot .station.failure').count(), 12);
  await page.done();
});

test('search finds an event, a delivery, a URL and a subscription, and says when there is nothing', async () => {
  const subscription = await server.subscribe('sought', ['sought.*']);
  await server.post('sought.thing', 1, 'a/b?c#d');
  const [delivery] = await until('it is delivered', async () => {
    const found = await server.deliveries({ url: subscription.url_id });
    return found.length === 1 && found;
  });
  const page = await browser.open(server);
  const find = async (text) => {
    await page.getByRole('searchbox').fill(text);
    await page.keyboard.press('Enter');
    await page.getByText(`Results for ${text}`).waitFor();
  };
  await find('a/b?c#d-0');
  await page
    .getByRole('main')
    .getByRole('link', { name: /Event.*sought\.thing/ })
    .click();
  await heading(page, /a\/b\?c#d-0/).waitFor();
  await page.getByText('"number": 0').waitFor();
  await find(delivery.id);
  await page
    .getByRole('main')
    .getByRole('link', { name: /Delivery/ })
    .click();
  await page.getByText(/It has arrived with the first attempt/).waitFor();
  await find(subscription.url_id);
  await page
    .getByRole('main')
    .getByRole('link', { name: /URL.*sought/ })
    .waitFor();
  await find(subscription.id);
  await page
    .getByRole('main')
    .getByRole('link', { name: /Subscription.*sought/ })
    .waitFor();
  await find('no-such-thing');
  await page.getByText('Nothing found').first().waitFor();
  await page.done();
});

test('a subscription is created, and its secret is shown once and copied', async () => {
  const page = await browser.open(server, '#/subscriptions');
  await link(page, 'New subscription').click();
  await heading(page, 'New subscription').waitFor();
  await page.getByLabel('URL', { exact: true }).fill(server.receiver('made'));
  await page.getByLabel('Event types').fill('made.*\ninvoice.paid');
  await button(page, 'Add a filter').click();
  await page.getByLabel('Field').fill('data.number');
  await page.getByLabel('Operator').selectOption('gte');
  await page.getByLabel('Value, as JSON or text').fill('10');
  await page.getByLabel('Description').fill('Made by hand');
  await button(page, 'Create').click();
  const dialog = page.getByRole('dialog', { name: 'The signing secret' });
  const secret = await dialog.locator('.secret').textContent();
  assert.match(secret, /^whsec_/);
  await button(dialog, 'Copy').click();
  await dialog.getByText('Copied').waitFor();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), secret);
  await button(dialog, 'I have stored it').click();
  await heading(page, 'Made by hand').waitFor();
  assert.ok(!(await page.content()).includes(secret), 'the secret is gone');
  const { items } = await server.call('GET', '/v1/subscriptions');
  const made = items.find(({ description }) => description === 'Made by hand');
  assert.deepEqual([made.event_types.sort(), made.filters], [['invoice.paid', 'made.*'], [{ field: 'data.number', op: 'gte', value: 10 }]]);
  await page.done();
});

test('a subscription that the server refuses keeps what was typed', async () => {
  const page = await browser.open(server, '#/subscriptions/new');
  await page.getByLabel('URL', { exact: true }).fill('ftp://receiver.example/x');
  await page.getByLabel('Event types').fill('not a type!');
  await button(page, 'Create').click();
  await page.getByRole('alert').getByText('event_types', { exact: false }).first().waitFor();
  assert.equal(await page.getByLabel('URL', { exact: true }).inputValue(), 'ftp://receiver.example/x');
  await page.done();
});

test('a subscription is pinged, edited, rotated, deactivated and deleted', async () => {
  await server.answer('handled', 200);
  const subscription = await server.subscribe('handled', ['handled.*'], { description: 'Handled' });
  const page = await browser.open(server, `#/subscriptions/${subscription.id}`);
  await button(page, 'Ping').click();
  await page.getByText(/The receiver answered 200 in/).waitFor();
  await server.answer('handled', 500);
  await button(page, 'Ping').click();
  await page.getByText('The ping failed (status 500)').waitFor();

  await link(page, 'Edit').click();
  await heading(page, 'Edit subscription').waitFor();
  await page.getByLabel('Event types').fill('handled.well');
  await page.getByLabel('Description').fill('Handled well');
  await button(page, 'Save').click();
  await heading(page, 'Handled well').waitFor();
  await page.getByText('handled.well', { exact: true }).waitFor();

  await button(page, 'Rotate secret').click();
  await button(page.getByRole('dialog'), 'Rotate').click();
  const shown = page.getByRole('dialog', { name: 'The new secret' });
  assert.match(await shown.locator('.secret').textContent(), /^whsec_/);
  await button(shown, 'I have stored it').click();

  await button(page, 'Deactivate').click();
  await button(page.getByRole('dialog'), 'Deactivate').click();
  await page.getByText('The subscription is inactive.').first().waitFor();
  await button(page, 'Activate').click();
  await page.getByText('The subscription is active.').first().waitFor();

  await button(page, 'Delete').click();
  await button(page.getByRole('dialog'), 'Delete').click();
  await heading(page, 'Subscriptions').waitFor();
  await assert.rejects(server.call('GET', `/v1/subscriptions/${subscription.id}`), /404/);
  await page.done();
});

test('an operator of all tenants sees whose everything is, and chooses one', async () => {
  const admin = await server.call('POST', '/v1/keys', { tenant: 'acme', role: 'admin' });
  const operator = await server.call('POST', '/v1/keys', { tenant: null, role: 'operator' });
  const body = { url: server.receiver('acme-shop'), event_types: ['acme.*'], description: 'Of Acme' };
  const subscription = await server.call('POST', '/v1/subscriptions', body, admin.key);
  const page = await browser.open(server, '#/urls?show=all', { key: operator.key });
  const row = page.getByRole('row', { name: /acme-shop/ });
  await row.getByText('acme', { exact: true }).waitFor();
  await row.getByRole('link').click();
  await heading(page, /acme-shop/).waitFor();
  assert.match(page.url(), /tenant=acme/);
  await button(page, 'Freeze').click();
  await button(page.getByRole('dialog'), 'Freeze').click();
  await page.getByText('The URL is frozen.').first().waitFor();

  await page.getByLabel('Tenant').selectOption('acme');
  await heading(page, 'URLs').waitFor();
  await go(page, '#/subscriptions', 'Subscriptions');
  await link(page, /acme-shop/).click();
  await heading(page, 'Of Acme').waitFor();
  assert.match(page.url(), new RegExp(subscription.id));

  await page.getByLabel('Tenant').selectOption('');
  await go(page, '#/subscriptions/new', 'New subscription');
  await page.getByLabel('Tenant', { exact: true }).last().fill('acme');
  await page.getByLabel('URL', { exact: true }).fill(server.receiver('acme-two'));
  await button(page, 'Create').click();
  await button(page.getByRole('dialog'), 'I have stored it').click();
  await heading(page, /acme-two/).waitFor();
  await page.done();
});

test('an admin sees one tenant and no choice', async () => {
  const admin = await server.call('POST', '/v1/keys', { tenant: 'other', role: 'admin' });
  const page = await browser.open(server, '#/urls?show=all', { key: admin.key });
  await page.getByText('No URLs yet').first().waitFor();
  assert.equal(await page.getByLabel('Tenant').count(), 0);
  await page.done();
});

test('a key that may only post is told so', async () => {
  const ingest = await server.call('POST', '/v1/keys', { tenant: 'other', role: 'ingest' });
  const page = await browser.open(server, '', { key: null });
  await page.getByLabel('Key').fill(ingest.key);
  await button(page, 'Open the console').click();
  await page.getByText('This key has the role ingest').waitFor();
  await page.done();
});

test('without a connection the page says so and tries again', async () => {
  const page = await browser.open(server, '#/subscriptions');
  await page.route('**/v1/urls*', (route) => route.abort());
  await go(page, '#/urls', 'URLs');
  await page.getByText('No connection').waitFor();
  await page.unroute('**/v1/urls*');
  await button(page, 'Try again').click();
  await page.getByRole('table').or(page.getByText('No URL is')).first().waitFor();
  await page.done();
});

test('what does not exist is an answer, not a blank page', async () => {
  const page = await browser.open(server, `#/urls/url_${'0'.repeat(26)}`);
  await page.getByText('There is no such URL').waitFor();
  await go(page, '#/nowhere/at/all', 'Not found');
  await page.done();
});
