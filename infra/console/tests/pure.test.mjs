// What needs no browser: formats, the schedule, the sentence about a delivery, the clock.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { niceMax } from '../charts.js';
import { createClock } from '../clock.js';
import { ago, bounded, countdown, duration, percent, until } from '../format.js';
import { grouped } from '../overview.js';
import { href, parseHash } from '../route.js';
import { AXIS_END, EXPIRY_MS, LAST_RETRY, axisPosition, gapBefore, retryOffset, upcoming } from '../schedule.js';
import { parsed } from '../subscription_form.js';
import { plan } from '../timeline.js';
import { whyNotArrived } from '../why.js';

const T0 = Date.parse('2026-01-01T00:00:00Z');
const at = (ms) => new Date(T0 + ms).toISOString();
const MINUTE = 60_000;

test('the schedule is the one of Holdfast', () => {
  assert.equal(retryOffset(0), 0);
  assert.equal(retryOffset(1), 84_800);
  assert.equal(retryOffset(2), 254_400);
  assert.equal(retryOffset(11), 173_585_600);
  assert.equal(duration(retryOffset(11)), '48 h 13 min');
  for (let n = 1; n <= LAST_RETRY; n += 1) assert.equal(retryOffset(n) - retryOffset(n - 1), gapBefore(n));
});

test('the axis puts retry n at n and ends after the last one', () => {
  for (let n = 0; n <= LAST_RETRY; n += 1) assert.ok(Math.abs(axisPosition(retryOffset(n)) - n) < 1e-9);
  assert.ok(AXIS_END > LAST_RETRY && AXIS_END < LAST_RETRY + 0.2);
  assert.equal(axisPosition(-5), 0);
});

test('what is to come starts at the due time and keeps the gaps', () => {
  const coming = upcoming(3, T0, T0 + EXPIRY_MS);
  assert.deepEqual(
    coming.map(({ n }) => n),
    [3, 4, 5, 6, 7, 8, 9, 10, 11],
  );
  assert.equal(coming[1].at - coming[0].at, gapBefore(4));
  assert.deepEqual(upcoming(10, T0, T0 + 1000), [{ n: 10, at: T0 }], 'nothing after it expires');
});

test('durations have at most two units', () => {
  const table = [
    [0, '0 ms'],
    [999, '999 ms'],
    [84_800, '84.8 s'],
    [60_000, '1 min'],
    [254_400, '4 min 14 s'],
    [3_599_900, '1 h'],
    [3_600_000, '1 h'],
    [5_400_000, '1 h 30 min'],
    [173_585_600, '48 h 13 min'],
    [52 * 3_600_000, '2 days 4 h'],
    [10 * 86_400_000, '10 days'],
  ];
  for (const [ms, text] of table) assert.equal(duration(ms), text, `${ms} ms`);
});

test('countdowns and ages follow the time that is passed in', () => {
  assert.equal(until(at(250_000), T0), 'in 4 min 10 s');
  assert.equal(until(at(0), T0), 'now');
  assert.equal(countdown(at(-1), T0), 'due now');
  assert.equal(ago(at(0), T0 + 500), 'just now');
  assert.equal(ago(at(0), T0 + 5 * MINUTE), '5 min ago');
});

test('a share of failures is never rounded to all or nothing', () => {
  assert.equal(percent(1, 1), '100 %');
  assert.equal(percent(99_999, 100_000), '99.9 %');
  assert.equal(percent(0, 0), '–');
  assert.equal(bounded({ count: 1000, more: true }), '1,000+');
});

const delivery = (more) => ({
  state: 'waiting',
  reason: null,
  epoch: 0,
  accepted_at: at(0),
  due_at: at(84_800),
  expires_at: at(EXPIRY_MS),
  attempts: [failed(0, 0)],
  ...more,
});
const failed = (n, ms, more) => ({
  n,
  epoch: 0,
  at: at(ms),
  outcome: 'failure',
  status: 503,
  error: 'status: the receiver answered 503',
  ms: 3,
  excerpt: null,
  ...more,
});

test('one sentence says why a delivery has not arrived', () => {
  const table = [
    [delivery(), null, 'It has not arrived because the first attempt failed (status 503); retry 1 of 11 is due in 1 min.'],
    [
      delivery({ attempts: [failed(0, 0), failed(1, 84_800, { status: null, error: 'dns: no such name' })] }),
      null,
      'It has not arrived because 2 attempts failed; the last one ended with dns; retry 2 of 11 is due in 1 min.',
    ],
    [delivery({ attempts: [] }), null, 'It has not been attempted yet; the first attempt is due in 1 min.'],
    [
      delivery({ state: 'parked' }),
      { state: 'frozen', since: at(0) },
      'After 1 failed attempt, it is held back because its URL was frozen 25 s ago: nothing is attempted until someone enables the URL. It expires in 2 days 4 h.',
    ],
    [
      delivery({ state: 'parked', attempts: [] }),
      { state: 'disabled', since: at(0), next_probe_at: at(84_800) },
      'It is held back because its URL was disabled 25 s ago; the next probe is due in 1 min, and a success releases it. It expires in 2 days 4 h.',
    ],
    [
      delivery({ state: 'parked' }),
      { state: 'enabled', since: at(0) },
      'After 1 failed attempt, it was held back; its URL is enabled again, and it is being released. It expires in 2 days 4 h.',
    ],
    [delivery({ state: 'parked', attempts: [] }), null, 'It is held back because its URL is disabled or frozen. It expires in 2 days 4 h.'],
    [
      delivery({ state: 'dead', reason: 'exhausted' }),
      null,
      'It was given up because all 1 attempts failed; the last one ended with status 503. Replay it when the receiver works again.',
    ],
    [
      delivery({ state: 'dead', reason: 'expired', attempts: [] }),
      null,
      'It was given up because its 52 hours passed before it arrived; it was held back and never attempted. Replay it when its URL is enabled.',
    ],
    [
      delivery({ state: 'dead', reason: 'unsubscribed' }),
      null,
      'It was given up because its subscription was deleted. It cannot be replayed.',
    ],
    [
      delivery({ state: 'dead', reason: 'inactive' }),
      null,
      'It was given up because its subscription was deactivated. Activate the subscription, then replay it.',
    ],
    [
      delivery({ state: 'delivered', attempts: [failed(0, 0), failed(1, 84_800, { outcome: 'success', status: 204 })] }),
      null,
      'It has arrived with retry 1, 84.8 s after it was accepted: the receiver answered 204.',
    ],
    [
      delivery({ state: 'delivered', epoch: 2, attempts: [failed(0, 0), failed(0, 9000, { epoch: 2, outcome: 'success', status: 200 })] }),
      null,
      'It has arrived with the first attempt of its replay (number 2): the receiver answered 200.',
    ],
  ];
  for (const [what, url, sentence] of table) assert.equal(whyNotArrived(what, url, T0 + 24_800), sentence);
});

test('the time line shows the chosen schedule only', () => {
  const replayed = delivery({
    epoch: 1,
    attempts: [failed(0, 0), failed(1, 84_800), failed(0, 10_000_000, { epoch: 1 })],
    due_at: at(10_084_800),
  });
  const first = plan(replayed, 0, T0 + 10_010_000);
  assert.equal(first.attempts.length, 2);
  assert.deepEqual([first.to_come.length, first.now], [0, null]);
  const second = plan(replayed, 1, T0 + 10_010_000);
  assert.equal(second.start, T0 + 10_000_000);
  assert.deepEqual([second.attempts.length, second.to_come[0].n], [1, 1]);
});

test('what is parked is planned from now on', () => {
  const parked = plan(delivery({ state: 'parked' }), 0, T0 + 3_600_000);
  assert.equal(parked.to_come[0].at, T0 + 3_600_000);
});

test('the clock finds out how fast the server runs', () => {
  let local = 1_000_000;
  const clock = createClock(() => local);
  clock.observe(at(0));
  local += 1000;
  clock.observe(at(600_000));
  assert.equal(Math.round(clock.rate), 600);
  local += 500;
  assert.equal(clock.now(), T0 + 900_000);
  clock.observe('nonsense');
  assert.equal(clock.now(), T0 + 900_000);
});

test('the delay of the network is not taken for another speed', () => {
  let local = 1_000_000;
  const clock = createClock(() => local);
  clock.observe(at(0));
  local += 1000;
  clock.observe(at(1100));
  assert.equal(clock.rate, 1);
});

test('minutes are added up to columns', () => {
  const minute = (index, success, p50) => ({
    minute: at(index * MINUTE),
    events: 1,
    attempts: { success, failure: 1, interrupted: 0 },
    latency_ms: p50 === null ? null : { average: p50, p50, p95: p50 * 2, max: p50 * 3 },
  });
  const [first, second] = grouped([minute(0, 3, 10), minute(1, 1, 40), minute(2, 0, null)], 2);
  assert.deepEqual([first.events, first.success, first.failure, first.p50, first.tail], [2, 4, 2, 20, 80]);
  assert.deepEqual([second.events, second.p50, second.tail], [1, null, null]);
});

test('ids with every character survive the address', () => {
  for (const id of ['a/b?c#d', '100%', '..', 'a b', 'é', '<script>']) {
    assert.deepEqual(parseHash(href(['events', id], { tenant: 'a&b' })).segments, ['events', id]);
  }
  assert.equal(parseHash('#/events/%E0%A4%A').segments[1], '%E0%A4%A', 'a broken address is no error');
  assert.equal(href(['urls'], { state: '', tenant: null }), '#/urls');
});

test('the value of a filter is JSON, or else text', () => {
  assert.deepEqual(['12', 'true', '"12"', 'paid', '[1]'].map(parsed), [12, true, '12', 'paid', [1]]);
});

test('the grid of a chart has round numbers', () => {
  assert.deepEqual([0, 1, 3, 7, 12, 180, 999].map(niceMax), [1, 1, 5, 10, 20, 200, 1000]);
});
