// What is going on, live.

import { address } from './address.js';
import { pathOf } from './api.js';
import { logarithmic, timeChart } from './charts.js';
import { timed } from './clock.js';
import { h, put } from './dom.js';
import { bounded, compact, duration, number, percent } from './format.js';
import { failure, loading } from './notice.js';
import { href } from './route.js';
import { pill } from './state.js';
import { row, table } from './table.js';
import { sinceNow } from './when.js';
import { outcomeOf } from './why.js';

const REFRESH_MS = 4000;
const MAX_FEED = 8;
/** Minutes shown, and how many of them one column has: a column stays wide enough to see. */
const RANGES = { '1 hour': [60, 1], '6 hours': [360, 5], '24 hours': [1440, 15] };

export function overviewPage(view) {
  let range = RANGES[view.query.get('range')] ? view.query.get('range') : '1 hour';
  const tiles = h('div', { class: 'tiles' });
  const events = timeChart({ title: 'Events per minute', series: [{ name: 'events', tone: 'accent', kind: 'bars' }], format: compact });
  const attempts = timeChart({
    title: 'Attempts per minute',
    series: [
      { name: 'success', tone: 'ok', kind: 'bars' },
      { name: 'failure', tone: 'bad', kind: 'bars' },
    ],
    format: compact,
  });
  const success = timeChart({
    title: 'Success rate of attempts',
    series: [{ name: 'success', tone: 'ok', kind: 'line' }],
    format: (value) => `${Math.round(value)} %`,
    max: 100,
  });
  const latency = timeChart({
    title: 'Latency of attempts',
    series: [
      { name: 'p50', tone: 'accent', kind: 'line' },
      { name: 'p95', tone: 'hold', kind: 'line' },
    ],
    format: (value) => duration(Math.round(value)),
    scale: logarithmic,
  });
  const feed = h('section', { class: 'card', 'aria-label': 'Latest attempts' }, h('h2', {}, 'Latest attempts'));
  const feedBody = h('div', { class: 'feed' }, loading('attempts', 3));
  feed.append(feedBody);
  const problem = h('div', {});
  const state = h('span', { class: 'live' }, 'live');

  const ranges = h(
    'div',
    { class: 'segments', role: 'group', 'aria-label': 'Time span' },
    Object.keys(RANGES).map((name) =>
      h('button', { type: 'button', 'aria-pressed': String(name === range), onclick: (event) => choose(name, event.currentTarget) }, name),
    ),
  );
  view.show(
    { title: 'Overview', actions: [state, ranges] },
    problem,
    put(
      tiles,
      Array.from({ length: 5 }, () => h('div', { class: 'card tile' }, loading('numbers', 2))),
    ),
    h('div', { class: 'charts' }, events.element, attempts.element, success.element, latency.element),
    feed,
  );

  function choose(name, button) {
    range = name;
    for (const each of ranges.children) each.setAttribute('aria-pressed', String(each === button));
    view.remember({ range: name });
    refresh();
  }

  async function refresh() {
    const [minutes, column] = RANGES[range];
    try {
      const overview = await timed(() => view.get('/v1/overview', { minutes }));
      put(problem);
      state.className = 'live on';
      put(tiles, numbers(view, overview));
      const columns = grouped(overview.minutes, column);
      const times = columns.map(({ minute }) => Date.parse(minute));
      const { success: ok, failure: bad } = overview.totals.attempts;
      events.update({
        times,
        values: [columns.map((each) => each.events / column)],
        headline: `${number(overview.totals.events)} in ${range}`,
        summary: `${overview.totals.events} events in ${range}`,
      });
      attempts.update({
        times,
        values: [columns.map((each) => each.success / column), columns.map((each) => each.failure / column)],
        headline: `${number(ok + bad)} in ${range}`,
        summary: `${ok} succeeded and ${bad} failed in ${range}`,
      });
      success.update({
        times,
        values: [columns.map((each) => (each.success + each.failure ? (each.success / (each.success + each.failure)) * 100 : null))],
        headline: percent(ok, ok + bad),
        summary: `${percent(ok, ok + bad)} of attempts succeeded in ${range}`,
      });
      const whole = overview.latency_ms;
      const tail = whole && tailOf(whole);
      latency.update({
        times,
        values: [columns.map((each) => each.p50), columns.map((each) => each.tail)],
        headline: whole ? `p50 ${duration(whole.p50)} · ${tail[0]} ${duration(tail[1])}` : 'no attempts',
        summary: whole ? `half took at most ${whole.p50} ms` : 'no attempts',
      });
    } catch (error) {
      if (view.signal.aborted) return;
      state.className = 'live';
      put(problem, failure(error, refresh));
    }
  }

  const follow = feedFollower(view, feedBody);
  view.repeat(REFRESH_MS, follow);
  return view.repeat(REFRESH_MS, refresh);
}

/** The highest percentile that the server has. */
const tailOf = (latency) => (latency.p99 === undefined ? ['p95', latency.p95] : ['p99', latency.p99]);

/** Adds minutes up, so that a day has as many columns as fit. */
export function grouped(minutes, size) {
  const columns = [];
  for (let at = 0; at < minutes.length; at += size) {
    const part = minutes.slice(at, at + size);
    const sum = (value) => part.reduce((total, minute) => total + value(minute), 0);
    const timed = part.filter((minute) => minute.latency_ms);
    const weight = (minute) => minute.attempts.success + minute.attempts.failure;
    const all = timed.reduce((total, minute) => total + weight(minute), 0);
    columns.push({
      minute: part[0].minute,
      events: sum((minute) => minute.events),
      success: sum((minute) => minute.attempts.success),
      failure: sum((minute) => minute.attempts.failure),
      // The median of medians is close enough for a column of minutes; the tail keeps the worst.
      p50: timed.length ? timed.reduce((total, minute) => total + minute.latency_ms.p50 * weight(minute), 0) / (all || 1) : null,
      tail: timed.length ? Math.max(...timed.map((minute) => tailOf(minute.latency_ms)[1])) : null,
    });
  }
  return columns;
}

function numbers(view, { waiting, parked, dead, urls, minutes }) {
  const last = minutes.at(-2) ?? minutes.at(-1);
  return [
    tile('Events', number(last?.events ?? 0), 'in the last full minute', null, 'accent'),
    tile('Waiting', bounded(waiting), 'due later', view.href('deliveries', {}, { state: 'waiting' }), 'wait'),
    tile('Parked', bounded(parked), 'URL disabled or frozen', view.href('deliveries', {}, { state: 'parked' }), 'hold'),
    tile('Dead', bounded(dead), 'given up, can be replayed', view.href('deliveries', {}, { state: 'dead' }), 'bad'),
    h(
      'a',
      { class: 'card tile', href: view.href('urls', {}, { show: 'trouble' }) },
      h('span', { class: 'tile-name' }, 'URLs'),
      h(
        'span',
        { class: 'tile-states' },
        urls.frozen > 0 && pill('frozen', `${number(urls.frozen)} frozen`),
        urls.disabled > 0 && pill('disabled', `${number(urls.disabled)} disabled`),
        pill('enabled', `${number(urls.enabled)} enabled`),
      ),
    ),
  ];
}

function tile(name, value, note, link, tone) {
  const inside = [
    h('span', { class: 'tile-name' }, name),
    h('span', { class: `tile-value ${value === '0' ? 'zero' : tone}` }, value),
    h('span', { class: 'tile-note' }, note),
  ];
  return link ? h('a', { class: 'card tile', href: link }, inside) : h('div', { class: 'card tile' }, inside);
}

/** Follows the latest attempts: asks for those after the last one that it has seen. */
function feedFollower(view, box) {
  let after = null;
  let seen = [];
  const names = new Map();
  // The feed has ids; each URL is asked for once.
  const named = async (attempt) => {
    if (!names.has(attempt.url_id))
      names.set(
        attempt.url_id,
        attempt.url ??
          (await view.get(pathOf('urls', attempt.url_id)).then(
            ({ url }) => url,
            () => attempt.url_id,
          )),
      );
  };
  const columns = [
    { name: 'Outcome', cell: (attempt) => pill(attempt.outcome, attempt.outcome === 'success' ? `${attempt.status}` : outcomeOf(attempt)) },
    {
      name: 'Event',
      wide: true,
      cell: (attempt) => [
        h('a', { href: view.href(['deliveries', attempt.delivery_id], attempt) }, attempt.event_id),
        ' ',
        h('span', { class: 'muted' }, attempt.type),
      ],
    },
    {
      name: 'URL',
      wide: true,
      cell: (attempt) =>
        h('a', { class: 'address-link', href: view.href(['urls', attempt.url_id], attempt) }, address(names.get(attempt.url_id))),
    },
    { name: 'Attempt', cell: (attempt) => (attempt.n === 0 ? 'first' : `retry ${attempt.n}`) },
    { name: 'Took', align: 'number', cell: (attempt) => duration(attempt.ms) },
    { name: 'When', align: 'number', cell: (attempt) => sinceNow(attempt.at) },
  ];
  return async () => {
    try {
      const page = await view.get('/v1/attempts', { after, limit: 20 });
      after = page.next;
      seen = [...page.items.reverse(), ...seen].slice(0, MAX_FEED);
      await Promise.all(seen.map(named));
      put(
        box,
        seen.length > 0
          ? table({ caption: 'Latest attempts, newest first', columns, rows: seen.map((attempt) => row(columns, attempt)) })
          : h(
              'p',
              { class: 'muted' },
              'No attempts yet. Post an event, and its attempts appear here. ',
              h('a', { href: href(['subscriptions', 'new']) }, 'Create a subscription'),
              ' first.',
            ),
      );
    } catch (error) {
      if (view.signal.aborted) return;
      // An operator who looks at all tenants has no feed on older servers.
      put(box, error.status === 400 ? h('p', { class: 'muted' }, 'Choose a tenant to follow its attempts.') : failure(error));
    }
  };
}
