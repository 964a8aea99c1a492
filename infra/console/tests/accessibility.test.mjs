// Everyone can use it: axe on every page, in both themes and on a phone; the keyboard; the focus.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { Browser, DESKTOP, PHONE, assertAccessible, go } from './browser.mjs';
import { Server, until } from './server.mjs';

let server;
let browser;
let pages;

before(async () => {
  [server, browser] = await Promise.all([Server.start({ speed: 2000 }), Browser.start()]);
  await server.answer('down', 503);
  const good = await server.subscribe('good', ['order.*'], {
    description: 'Orders',
    filters: [{ field: 'data.number', op: 'gte', value: 0 }],
  });
  const bad = await server.subscribe('down', ['search.*'], { description: 'Search' });
  await server.post('order.created', 20);
  await server.post('search.indexed', 120);
  await until('it is disabled', async () => (await server.url(bad.url_id)).state === 'disabled');
  const { url_id: frozen } = await server.subscribe('cold', ['cold.*']);
  await server.call('POST', `/v1/urls/${frozen}/freeze`, { reason: 'on holiday' });
  const [parked] = await until('one is parked', async () => {
    const found = await server.deliveries({ url: bad.url_id, state: 'parked' });
    return found.length > 0 && found;
  });
  const replay = await server.call('POST', `/v1/urls/${good.url_id}/replay`, { states: ['delivered'] });
  pages = [
    ['#/', 'Overview'],
    ['#/urls?show=all', 'URLs'],
    [`#/urls/${bad.url_id}`, /down/],
    [`#/urls/${frozen}`, /cold/],
    ['#/events', 'Events'],
    ['#/deliveries', 'Deliveries'],
    [`#/deliveries/${parked.id}`, /search/],
    ['#/events/order.created-1', /order/],
    ['#/subscriptions', 'Subscriptions'],
    [`#/subscriptions/${good.id}`, 'Orders'],
    ['#/subscriptions/new', 'New subscription'],
    [`#/subscriptions/${good.id}/edit`, 'Edit subscription'],
    ['#/replays', 'Replays'],
    [`#/replays/${replay.id}`, 'Replay'],
    ['#/audit', 'Audit'],
    ['#/search?q=order.created-1', 'Search'],
    ['#/subscriptions/test', 'Test an event'],
    ['#/urls?order=longest', 'URLs'],
    ['#/search?q=nothing', 'Search'],
    ['#/nowhere', 'Not found'],
  ];
});
after(async () => {
  await browser?.stop();
  await server?.stop();
});

for (const [name, options] of [
  ['light', { colorScheme: 'light', viewport: DESKTOP }],
  ['dark', { colorScheme: 'dark', viewport: DESKTOP }],
  ['on a phone', { colorScheme: 'light', viewport: PHONE }],
  ['on a phone in the dark', { colorScheme: 'dark', viewport: PHONE }],
]) {
  test(`axe finds nothing on any page, ${name}`, async () => {
    const page = await browser.open(server, '#/', options);
    for (const [hash, heading] of pages) {
      await go(page, hash, heading);
      await page.locator('main .loading').first().waitFor({ state: 'detached' });
      await assertAccessible(page, `${hash} ${name}`);
      const { wide, headings, landmarks, title } = await page.evaluate(() => ({
        wide: document.documentElement.scrollWidth - window.innerWidth,
        headings: document.querySelectorAll('h1').length,
        title: document.title,
        landmarks: ['header', 'nav', 'main'].filter((each) => document.querySelector(each)).length,
      }));
      assert.ok(wide <= 0, `${hash} is ${wide} px wider than the screen`);
      assert.deepEqual([headings, landmarks], [1, 3], hash);
      assert.match(title, / · Holdfast$/);
    }
    await page.done();
  });
}

test('axe finds nothing on the sign-in page and in dialogs', async () => {
  const signIn = await browser.open(server, '', { key: null });
  await assertAccessible(signIn, 'the sign-in page');
  await signIn.done();
  for (const colorScheme of ['light', 'dark']) {
    const page = await browser.open(server, pages[2][0], { colorScheme });
    for (const name of ['Freeze', 'Enable', 'Replay…']) {
      await page.getByRole('button', { name, exact: true }).click();
      await page.getByRole('dialog').waitFor();
      await assertAccessible(page, `the dialog ${name}, ${colorScheme}`);
      await page.keyboard.press('Escape');
      await page.getByRole('dialog').waitFor({ state: 'detached' });
    }
    await page.done();
  }
});

test('the focus goes to the heading of a new page, and back to the button after a dialog', async () => {
  const page = await browser.open(server, '#/urls?show=all');
  await page.getByRole('link', { name: /down/ }).focus();
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name: /down/ }).waitFor();
  const focused = () => page.evaluate(() => `${document.activeElement.tagName} ${document.activeElement.textContent}`);
  await until('the heading has the focus', async () => (await focused()).startsWith('H1'));
  const freeze = page.getByRole('button', { name: 'Freeze', exact: true });
  await freeze.focus();
  await page.keyboard.press('Enter');
  await page.getByRole('dialog').waitFor();
  assert.ok(await page.evaluate(() => document.querySelector('dialog').contains(document.activeElement)), 'the focus is in the dialog');
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  assert.equal(await focused(), 'BUTTON Freeze');
  await page.done();
});

test('the first Tab leads past the navigation, and "/" to the search', async () => {
  const page = await browser.open(server, '#/urls');
  await page.locator('main .loading').first().waitFor({ state: 'detached' });
  await page.keyboard.press('Tab');
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Skip to content');
  await page.keyboard.press('Enter');
  assert.equal(await page.evaluate(() => document.activeElement.tagName), 'H1');
  await page.keyboard.press('/');
  assert.equal(await page.evaluate(() => document.activeElement.type), 'search');
  await page.keyboard.type('order.created-1\n');
  await page.getByRole('main').getByRole('link', { name: /Event/ }).waitFor();
  await page.done();
});

test('single values of a chart can be read with the arrow keys', async () => {
  const page = await browser.open(server);
  const chart = page.getByRole('group', { name: /Attempts per minute/ });
  await chart.locator('svg').waitFor();
  await chart.focus();
  await page.keyboard.press('ArrowLeft');
  await page.getByText(/^\d\d:\d\d\s+success .* · failure/).waitFor();
  await page.done();
});

test('the theme follows the system until one is chosen, and the choice is kept', async () => {
  const page = await browser.open(server, '#/audit', { colorScheme: 'dark' });
  const background = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
  const dark = await background();
  await page.emulateMedia({ colorScheme: 'light' });
  const light = await background();
  assert.notEqual(light, dark);
  const button = page.getByRole('button', { name: /theme; switch/ });
  await button.click();
  await button.click();
  assert.equal(await background(), dark, 'dark was chosen');
  await page.reload();
  await page.getByRole('heading', { level: 1, name: 'Audit' }).waitFor();
  assert.equal(await background(), dark, 'and is kept');
  await page.done();
});

test('outcomes are read aloud', async () => {
  const page = await browser.open(server, '#/urls?show=disabled');
  await until('the count is announced', async () => /in all|shown/.test(await page.locator('#announcer').textContent()));
  assert.equal(await page.locator('#announcer').getAttribute('aria-live'), 'polite');
  await page.done();
});
