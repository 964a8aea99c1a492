// Lists stay quick however long they are, and live pages rest while their tab is hidden.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { Browser, go } from './browser.mjs';
import { answer, overview, url } from './mock.mjs';
import { Server, until } from './server.mjs';

const URLS = 100_000;

let server;
let browser;

before(async () => {
  [server, browser] = await Promise.all([Server.start(), Browser.start()]);
});
after(async () => {
  await browser?.stop();
  await server?.stop();
});

/** A list of 100,000 URLs, read by cursor as from the server. */
function manyUrls(asked) {
  return (query) => {
    const limit = Number(query.get('limit'));
    const from = Number(query.get('cursor') ?? 0);
    asked.push({ from, limit, state: query.get('state') });
    const items = Array.from({ length: Math.min(limit, URLS - from) }, (_, index) => url(from + index));
    return { items, next: from + limit < URLS ? String(from + limit) : null };
  };
}

test('a list of 100,000 URLs is read a page at a time, and only when asked for', async () => {
  const asked = [];
  const page = await browser.open(server, '#/subscriptions', { mock: (tab) => answer(tab, [[/urls$/, manyUrls(asked)]]) });
  asked.length = 0;
  await go(page, '#/urls?show=disabled', 'URLs');
  await page.getByText('50 shown').first().waitFor();
  assert.deepEqual(
    asked.map(({ from, limit }) => [from, limit]),
    [[0, 50]],
    'one page',
  );
  assert.equal(await page.locator('tbody tr').count(), 50);
  const more = page.getByRole('button', { name: 'Show more' });
  // The longest time for which the page did not react, while 20 more pages are shown.
  await page.evaluate(() => {
    window.longest = 0;
    new PerformanceObserver((list) => {
      for (const each of list.getEntries()) window.longest = Math.max(window.longest, each.duration);
    }).observe({ type: 'longtask', buffered: false });
  });
  await more.focus();
  for (let pages = 2; pages <= 21; pages += 1) {
    await page.keyboard.press('Enter');
    await page
      .getByText(`${(pages * 50).toLocaleString('en')} shown`)
      .first()
      .waitFor();
  }
  assert.equal(asked.length, 21);
  assert.ok(await more.evaluate((element) => element === document.activeElement), 'the focus stays on the button');
  const longest = await page.evaluate(() => window.longest);
  assert.ok(longest < 1000, `the page stood still for ${longest} ms`);
  await page.done();
});

test('an answer that comes late does not overwrite the list that was chosen after it', async () => {
  let release;
  const held = new Promise((resolve) => {
    release = resolve;
  });
  const page = await browser.open(server, '#/subscriptions', {
    mock: (tab) =>
      answer(tab, [
        [
          /urls$/,
          async (query) => {
            if (query.get('state') === 'disabled') await held;
            return {
              items:
                query.get('limit') === '1'
                  ? []
                  : [url(query.get('state') === 'disabled' ? 1 : 2, { state: query.get('state') ?? 'enabled' })],
              next: null,
            };
          },
        ],
      ]),
  });
  await go(page, '#/urls?show=disabled', 'URLs');
  await page.getByRole('button', { name: 'Frozen' }).click();
  await page.getByText('receiver-2.example').waitFor();
  release();
  await page.getByRole('button', { name: 'Enabled' }).click();
  await page.getByText('receiver-2.example').waitFor();
  assert.equal(await page.getByText('receiver-1.example').count(), 0);
  await page.done();
});

test('in trouble are the frozen first, then the disabled, then those that fail and are enabled', async () => {
  const asked = [];
  const page = await browser.open(server, '#/subscriptions', {
    mock: (tab) =>
      answer(tab, [
        [
          /urls$/,
          (query) => {
            asked.push(query.get('state') ?? `failing=${query.get('failing')}`);
            const state = query.get('state') ?? 'enabled';
            return { items: [url({ frozen: 1, disabled: 2, enabled: 3 }[state], { state })], next: null };
          },
        ],
      ]),
  });
  await go(page, '#/urls', 'URLs');
  await page.getByText('3 in all').first().waitFor();
  const states = await page.locator('tbody tr .pill').allTextContents();
  assert.deepEqual(states, ['frozen', 'disabled', 'enabled']);
  assert.deepEqual(asked.slice(-3), ['frozen', 'disabled', 'failing=true']);
  await page.done();
});

test('a list whose pages are empty is read a few pages at a time', async () => {
  const asked = [];
  const page = await browser.open(server, '#/subscriptions', {
    mock: (tab) =>
      answer(tab, [
        [
          /urls$/,
          (query) => {
            if (query.get('limit') === '1') return { items: [], next: null };
            asked.push(query.get('cursor'));
            return { items: asked.length < 8 ? [] : [url(1)], next: asked.length < 8 ? `page-${asked.length}` : null };
          },
        ],
      ]),
  });
  await go(page, '#/urls?show=disabled', 'URLs');
  await page.getByText('0 shown').first().waitFor();
  assert.equal(asked.length, 5);
  await page.getByRole('button', { name: 'Show more' }).click();
  await page.getByText('1 in all').first().waitFor();
  assert.equal(asked.length, 8);
  await page.done();
});

test('the overview refreshes while it is seen, and rests while the tab is hidden', async () => {
  let asked = 0;
  const page = await browser.open(server, '#/', {
    mock: async (tab) => {
      await tab.clock.install();
      await answer(tab, [
        [
          /overview/,
          (query) => {
            if (query.get('minutes') === '60') asked += 1;
            return overview();
          },
        ],
      ]);
    },
  });
  await until('it is loaded', () => asked > 0);
  const hide = (hidden) =>
    page.evaluate((value) => {
      Object.defineProperty(document, 'hidden', { configurable: true, get: () => value });
      document.dispatchEvent(new Event('visibilitychange'));
    }, hidden);
  const seen = asked;
  await until('it refreshes', async () => {
    await page.clock.runFor(1000);
    return asked >= seen + 2;
  });
  await hide(true);
  const before = asked;
  for (let step = 0; step < 10; step += 1) {
    await page.clock.runFor(10_000);
    // By the same way as the refreshes, so that one that was sent would be answered first.
    await page.evaluate(() => fetch('/v1/overview?minutes=7').then((response) => response.text()));
  }
  assert.ok(asked <= before + 1, 'one request may have been on its way');
  await hide(false);
  await until('it goes on', () => asked > before + 1);
  await page.done();
});

test('loading changes nothing of the layout that was already there', async () => {
  const page = await browser.open(server, '#/subscriptions', {
    mock: (tab) => answer(tab, [[/overview/, () => overview({ waiting: { count: 1000, more: true } })]]),
  });
  await page.evaluate(() => {
    window.shift = 0;
    new PerformanceObserver((list) => {
      for (const each of list.getEntries()) if (!each.hadRecentInput) window.shift += each.value;
    }).observe({ type: 'layout-shift', buffered: false });
  });
  await go(page, '#/', 'Overview');
  await page.getByText('1,000+').waitFor();
  await page.getByText('No attempts yet').waitFor();
  const shift = await page.evaluate(() => window.shift);
  assert.ok(shift < 0.1, `the layout moved by ${shift}`);
  await page.done();
});
