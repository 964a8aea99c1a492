// A headless Chromium. A page fails its test if the console reports an error, which includes everything that the policy forbids.

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';

const require = createRequire(`${process.env.CONSOLE_PACKAGES}/`);
const { chromium } = require('playwright-core');
const axe = require.resolve('axe-core/axe.min.js');

export const DESKTOP = { width: 1280, height: 860 };
export const PHONE = { width: 390, height: 844 };

export class Browser {
  static async start() {
    // In a container there is no user namespace for the sandbox.
    return new Browser(await chromium.launch({ executablePath: process.env.CHROMIUM, args: ['--no-sandbox'] }));
  }

  constructor(browser) {
    this.browser = browser;
  }

  stop() {
    return this.browser.close();
  }

  /** A page of the console in a tab of its own. `key: null` shows the sign-in page; `mock` gets the page before anything is loaded. */
  async open(server, hash = '#/', { key = server.key, viewport = DESKTOP, colorScheme = 'light', mock, expectErrors = false } = {}) {
    const context = await this.browser.newContext({
      viewport,
      colorScheme,
      timezoneId: 'UTC',
      locale: 'en-GB',
      permissions: ['clipboard-read', 'clipboard-write'],
    });
    const page = await context.newPage();
    page.setDefaultTimeout(15_000);
    page.errors = [];
    page.on('pageerror', (error) => page.errors.push(error.message));
    page.on('console', (message) => {
      // A 4xx answer is shown by the page; the browser reports it as well.
      if (message.type() === 'error' && !message.text().startsWith('Failed to load resource')) page.errors.push(message.text());
    });
    page.on('dialog', (dialog) => {
      page.errors.push(`a script opened a dialog: ${dialog.message()}`);
      dialog.dismiss();
    });
    // Only once, so that signing out lasts.
    if (key)
      await page.addInitScript((value) => {
        if (!sessionStorage.getItem('test.began')) {
          sessionStorage.setItem('test.began', '1');
          sessionStorage.setItem('holdfast.key', value);
        }
      }, key);
    if (process.env.CONSOLE_FILES) await fromFolder(page);
    if (mock) await mock(page);
    await page.goto(`${server.base}/console${hash}`);
    await page.locator(key ? 'main h1' : 'input[name=key]').waitFor();
    page.done = async () => {
      await context.close();
      if (!expectErrors) assert.deepEqual(page.errors, [], 'the console reported errors');
    };
    return page;
  }
}

/** For work on the console: the files of the folder instead of those in the program, with the program's headers. */
async function fromFolder(page) {
  await page.route(/\/console\/\w+\/\w+\.(js|css|svg)$/, async (route) => {
    const response = await route.fetch();
    const name = new URL(route.request().url()).pathname.split('/').pop();
    await route.fulfill({ response, path: fileURLToPath(new URL(`../${name}`, import.meta.url)) });
  });
}

/** Goes to another page within the console and waits for its heading. */
export async function go(page, hash, heading) {
  await page.evaluate((to) => {
    location.hash = to;
  }, hash);
  await page.getByRole('heading', { level: 1, name: heading }).waitFor();
}

/** Fails with what axe finds, in words. */
export async function assertAccessible(page, what) {
  // By the debugger's protocol, which the policy of the page does not restrict.
  if (!(await page.evaluate(() => 'axe' in window))) await page.evaluate(axeSource());
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
  const found = violations.map(
    (each) =>
      `${each.id}: ${each.help}\n  ${each.nodes
        .slice(0, 3)
        .map((node) => `${node.html.slice(0, 160)}\n    ${node.failureSummary}`)
        .join('\n  ')}`,
  );
  assert.deepEqual(found, [], `${what} has violations`);
}

let source;
function axeSource() {
  source ??= require('node:fs').readFileSync(axe, 'utf8');
  return source;
}
