// Numbers, times and durations as people read them. Pure: the current time is an argument.

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

const whole = new Intl.NumberFormat('en');
const short = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });

export const number = (value) => whole.format(value);
export const compact = (value) => (value < 10_000 ? whole.format(Math.round(value * 10) / 10) : short.format(value));

/** A count that the server took up to a bound: `{count, more}`. */
export const bounded = (counted) => `${number(counted?.count ?? 0)}${counted?.more ? '+' : ''}`;

/** One decimal where it matters: 99.9 % and 100 % are different things. */
export function percent(part, all) {
  if (!all) return '–';
  const share = (part / all) * 100;
  const rounded = share > 99.9 && share < 100 ? 99.9 : Math.round(share * 10) / 10;
  return `${rounded} %`;
}

/** "84.8 s", "4 min 14 s", "3 h 1 min", "2 days 1 h": at most two units. */
export function duration(ms) {
  const value = Math.max(0, ms);
  if (value < SECOND) return `${Math.round(value)} ms`;
  if (value < 100 * SECOND && value % SECOND !== 0) return `${(value / SECOND).toFixed(1)} s`;
  // Rounded once, so that 59 min 59.9 s is 1 h.
  const seconds = Math.round(value / SECOND) * SECOND;
  if (seconds < MINUTE) return `${seconds / SECOND} s`;
  if (seconds < HOUR) return two(seconds, MINUTE, 'min', SECOND, 's');
  if (seconds < 2 * DAY + HOUR) return two(seconds, HOUR, 'h', MINUTE, 'min');
  return two(seconds, DAY, 'days', HOUR, 'h');
}

function two(value, large, largeName, small, smallName) {
  let first = Math.floor(value / large);
  let second = Math.round((value % large) / small);
  if (second * small === large) [first, second] = [first + 1, 0];
  const name = largeName === 'days' && first === 1 ? 'day' : largeName;
  return second === 0 ? `${first} ${name}` : `${first} ${name} ${second} ${smallName}`;
}

/** One unit, for places with little room: "3 h". */
export function roughly(ms) {
  const value = Math.max(0, ms);
  if (value < MINUTE) return `${Math.round(value / SECOND)} s`;
  if (value < HOUR) return `${Math.round(value / MINUTE)} min`;
  if (value < 2 * DAY) return `${Math.round(value / HOUR)} h`;
  return `${Math.round(value / DAY)} days`;
}

/** "just now", "5 min ago". */
export function ago(at, now) {
  const past = now - Date.parse(at);
  return past < 2 * SECOND ? 'just now' : `${roughly(past)} ago`;
}

/** A countdown: "in 4 min 10 s", or "now" when the time has come. */
export function until(at, now) {
  const left = Date.parse(at) - now;
  return left <= 0 ? 'now' : `in ${duration(Math.ceil(left / SECOND) * SECOND)}`;
}

/** The same where there is no word before it. */
export function countdown(at, now) {
  return Date.parse(at) <= now ? 'due now' : until(at, now);
}

const clockOf = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit' });
const secondsOf = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' });
const dateOf = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', year: 'numeric' });

// What is no time is shown as it is: a page must not break on it.
function timeBy(format, at) {
  const time = new Date(at);
  return Number.isNaN(time.getTime()) ? String(at ?? '–') : format(time);
}

export const clockTime = (at) => timeBy((time) => clockOf.format(time), at);
/** In the time zone of the browser; the exact time in UTC is in the element's title. */
export const dateTime = (at) => timeBy((time) => `${dateOf.format(time)}, ${secondsOf.format(time)}`, at);

/** "1 attempt", "2 attempts". */
export const plural = (count, one, many = `${one}s`) => `${number(count)} ${count === 1 ? one : many}`;

/** Ids are long; the end tells them apart as well as the whole. */
export const shortId = (id) => (id.length > 22 ? `${id.slice(0, 8)}…${id.slice(-6)}` : id);
