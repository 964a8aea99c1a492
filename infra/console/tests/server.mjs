// A Holdfast of its own for each test file, with what tests do to it.

import { spawn } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const START_TIMEOUT_MS = 20_000;
const STEP_MS = 50;

export class Server {
  /** `speed`: how much faster the schedule runs than real time. `fill` gets the data folder before the server starts. `flags`: of the server. */
  static async start({ speed = 1, fill, flags = [] } = {}) {
    const folder = await mkdtemp(join(tmpdir(), 'holdfast-console-'));
    await fill?.(folder);
    const args = ['dev', '--listen', '127.0.0.1:0', '--data', folder, '--speed', String(speed), '--keep-days', '3650', ...flags];
    const child = spawn(process.env.HOLDFAST_PROGRAM, args, { stdio: ['ignore', 'pipe', 'ignore'] });
    const base = await new Promise((resolve, reject) => {
      let printed = '';
      const late = setTimeout(() => reject(new Error(`it did not start: ${printed}`)), START_TIMEOUT_MS);
      child.stdout.on('data', (bytes) => {
        printed += bytes;
        const found = /running at (http:\/\/[0-9.:]+)/.exec(printed);
        if (found) {
          clearTimeout(late);
          resolve(found[1]);
        }
      });
      child.on('exit', (code) => reject(new Error(`it ended with ${code}: ${printed}`)));
    });
    return new Server(child, folder, base, (await readFile(join(folder, 'key'), 'utf8')).trim());
  }

  constructor(child, folder, base, key) {
    Object.assign(this, { child, folder, base, key });
  }

  async stop() {
    const ended = new Promise((resolve) => this.child.once('exit', resolve));
    this.child.kill('SIGTERM');
    await ended;
    await rm(this.folder, { recursive: true, force: true });
  }

  async call(method, path, body, key = this.key) {
    const response = await fetch(this.base + path, {
      method,
      headers: { authorization: `Bearer ${key}` },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return text ? JSON.parse(text) : null;
  }

  receiver(name) {
    return `${this.base}/dev/receiver/${name}`;
  }

  /** Makes a built-in receiver answer so. */
  answer(name, answer) {
    return fetch(this.receiver(name), { method: 'PUT', body: JSON.stringify({ answer }) });
  }

  subscribe(name, eventTypes, more = {}) {
    return this.call('POST', '/v1/subscriptions', { url: this.receiver(name), event_types: eventTypes, ...more });
  }

  /** Posts so many events of a type, with the ids `tag-0`, `tag-1`, … */
  async post(type, count = 1, tag = type, data = (index) => ({ number: index })) {
    const events = Array.from({ length: count }, (_, index) => ({ id: `${tag}-${index}`, type, data: data(index) }));
    for (let at = 0; at < events.length; at += 100) await this.call('POST', '/v1/events', events.slice(at, at + 100));
  }

  url(id) {
    return this.call('GET', `/v1/urls/${id}`);
  }

  async deliveries(query) {
    return (await this.call('GET', `/v1/deliveries?${new URLSearchParams(query)}`)).items;
  }
}

/** Waits for a condition, with a deadline. */
export async function until(what, condition, ms = 30_000) {
  const end = Date.now() + ms;
  for (;;) {
    const found = await condition();
    if (found) return found;
    if (Date.now() > end) throw new Error(`it did not happen in ${ms} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, STEP_MS));
  }
}
