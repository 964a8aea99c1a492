// The 48 hours of one delivery on a logarithmic time line: what was attempted, what is to come, and where we are.

import { h, put, s } from './dom.js';
import { duration, roughly } from './format.js';
import { AXIS_END, EXPIRY_MS, LAST_RETRY, axisPosition, retryOffset, upcoming } from './schedule.js';
import { outcomeOf } from './why.js';

const SIDE = 26;
const HEIGHT = 150;
const RAIL = 76;
/** Below this width only every other label fits. */
const NARROW_PX = 720;

/** The attempts of one epoch and what follows; times in milliseconds. Pure. */
export function plan(delivery, epoch, now) {
  const attempts = delivery.attempts
    .filter((attempt) => attempt.epoch === epoch)
    .map((attempt) => ({ ...attempt, at: Date.parse(attempt.at) }));
  const start = attempts[0]?.at - (attempts[0]?.n ? retryOffset(attempts[0].n) : 0) || Date.parse(delivery.accepted_at);
  const isCurrent = epoch === delivery.epoch;
  const isOpen = isCurrent && (delivery.state === 'waiting' || delivery.state === 'parked');
  const expires = delivery.expires_at && isOpen ? Date.parse(delivery.expires_at) : start + EXPIRY_MS;
  const next = attempts.length > 0 ? attempts.at(-1).n + 1 : 0;
  // What is parked is attempted when it is released, which is now at the earliest.
  const parked = isOpen && delivery.state === 'parked';
  const due = isOpen && delivery.due_at ? Math.max(Date.parse(delivery.due_at), parked ? now : start) : null;
  const to_come = due === null ? [] : upcoming(next, due, expires);
  return { start, attempts, to_come, expires, isOpen, parked, now: isOpen ? Math.min(now, expires) : null };
}

export function timeline(delivery, epoch, currentTime) {
  const plot = h('div', { class: 'timeline-plot' });
  const element = h(
    'figure',
    { class: 'card timeline' },
    h(
      'figcaption',
      {},
      h('span', { class: 'chart-title' }, 'The 48-hour schedule'),
      h('span', { class: 'chart-note' }, 'time since the first attempt, on a logarithmic scale'),
    ),
    plot,
    h(
      'ul',
      { class: 'legend' },
      [
        ['failure', 'failed'],
        ['success', 'arrived'],
        ['due', 'next attempt'],
        ['later', 'planned'],
      ].map(([kind, text]) =>
        h('li', {}, s('svg', { class: 'key-icon', viewBox: '0 0 20 20', 'aria-hidden': 'true' }, station(kind, 10, 10)), text),
      ),
    ),
  );
  let width = 0;
  const draw = () => {
    if (width < 120) return;
    put(plot, picture(plan(delivery, epoch, currentTime()), width));
  };
  new ResizeObserver(([entry]) => {
    width = entry.contentRect.width;
    draw();
  }).observe(plot);
  return {
    element,
    draw,
    update(next) {
      delivery = next;
      draw();
    },
  };
}

function picture(shown, width) {
  const x = (ms) => SIDE + (Math.min(axisPosition(ms), AXIS_END) / AXIS_END) * (width - 2 * SIDE);
  const at = (time) => x(time - shown.start);
  const { attempts, to_come } = shown;
  const reached = Math.max(shown.start, attempts.at(-1)?.at ?? 0, shown.now ?? 0);
  return s(
    'svg',
    { width, height: HEIGHT, role: 'img', 'aria-label': describe(shown) },
    s('line', { class: 'rail', x1: x(0), x2: x(EXPIRY_MS), y1: RAIL, y2: RAIL }),
    s('line', { class: 'rail reached', x1: x(0), x2: at(reached), y1: RAIL, y2: RAIL }),
    shown.parked &&
      s('rect', {
        class: 'held',
        x: at(attempts.at(-1)?.at ?? shown.start),
        y: RAIL - 13,
        width: Math.max(2, at(shown.now) - at(attempts.at(-1)?.at ?? shown.start)),
        height: 26,
        rx: 4,
      }),
    scale(x, width),
    s('line', { class: 'expiry', x1: x(EXPIRY_MS), x2: x(EXPIRY_MS), y1: RAIL - 22, y2: RAIL + 22 }),
    shown.now !== null && nowMarker(at(shown.now), width, shown.now - shown.start),
    to_come.map(({ n, at: time }, index) =>
      titled(station(index === 0 ? 'due' : 'later', at(time), RAIL), `Retry ${n}: ${duration(time - shown.start)} after the first attempt`),
    ),
    attempts.map((attempt) => titled(station(attempt.outcome, at(attempt.at), RAIL), attemptText(attempt, shown.start))),
  );
}

/** Where the schedule puts each retry. */
function scale(x, width) {
  const narrow = width < NARROW_PX;
  return Array.from({ length: LAST_RETRY + 1 }, (_, n) => {
    const place = x(retryOffset(n));
    const labelled = !narrow || n % 2 === 1;
    return [
      s('line', { class: 'notch', x1: place, x2: place, y1: RAIL + 20, y2: RAIL + 26 }),
      labelled && s('text', { class: 'tick middle', x: place, y: RAIL + 42 }, n === 0 ? '0' : roughlyAt(retryOffset(n))),
      s('text', { class: 'tick faint middle', x: place, y: RAIL + 60 }, n === 0 ? (narrow ? '1st' : 'first') : n),
    ];
  });
}

function roughlyAt(ms) {
  if (ms < 120_000) return `${Math.round(ms / 1000)} s`;
  const hours = ms / 3_600_000;
  return hours < 1 ? roughly(ms) : `${hours < 2 ? hours.toFixed(1) : Math.round(hours)} h`;
}

function nowMarker(place, width, past) {
  const anchor = place < 60 ? 'start' : place > width - 60 ? 'end' : 'middle';
  return [
    s('line', { class: 'now', x1: place, x2: place, y1: 26, y2: RAIL + 18 }),
    s('text', { class: `tick now-label ${anchor}`, x: place, y: 18 }, `now, ${roughly(past)}`),
  ];
}

function station(kind, cx, cy) {
  const inside = {
    failure: `M${cx - 3.5} ${cy - 3.5}l7 7M${cx + 3.5} ${cy - 3.5}l-7 7`,
    success: `M${cx - 4} ${cy + 0.5}l2.8 2.8 5.2-6`,
    interrupted: `M${cx - 3.5} ${cy}h7`,
  }[kind];
  return s(
    'g',
    { class: `station ${kind}` },
    s('circle', { cx, cy, r: kind === 'later' ? 5 : kind === 'due' ? 7.5 : 8.5 }),
    inside && s('path', { d: inside }),
  );
}

function titled(group, text) {
  group.prepend(s('title', {}, text));
  return group;
}

const attemptText = (attempt, start) =>
  `${attempt.n === 0 ? 'First attempt' : `Retry ${attempt.n}, ${duration(attempt.at - start)} later`}: ${attempt.outcome}, ${outcomeOf(attempt)}`;

/** The picture in words. */
function describe({ attempts, to_come, start, parked, now }) {
  const made = attempts.length === 0 ? 'No attempt was made yet' : attempts.map((attempt) => attemptText(attempt, start)).join('. ');
  const next =
    to_come.length === 0
      ? 'No attempt is to come'
      : `Retry ${to_come[0].n} is due ${duration(to_come[0].at - start)} after the first attempt; ${to_come.length - 1} more would follow`;
  const held = parked ? ` It is parked, ${duration(now - start)} after the start.` : '';
  return `${made}. ${next}.${held}`;
}
