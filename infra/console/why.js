// Says in one sentence why a delivery has, or has not, arrived. Pure: the delivery, its URL (null if it is not known) and the time go in.

import { ago, duration, plural, until } from './format.js';
import { LAST_RETRY } from './schedule.js';

export function whyNotArrived(delivery, url, now) {
  const attempts = delivery.attempts.filter((attempt) => attempt.epoch === delivery.epoch);
  const last = attempts.at(-1);
  const sayings = { delivered, waiting, parked, dead };
  const saying = sayings[delivery.state];
  return saying ? saying(delivery, { attempts, last, url, now }) : `Its state is ${delivery.state}.`;
}

function delivered(delivery, { last }) {
  if (!last) return 'It has arrived.';
  const took = duration(Date.parse(last.at) - Date.parse(delivery.accepted_at));
  const which = last.n === 0 ? 'with the first attempt' : `with retry ${last.n}`;
  const replayed = delivery.epoch > 0 ? ` of its replay (number ${delivery.epoch})` : `, ${took} after it was accepted`;
  return `It has arrived ${which}${replayed}: the receiver answered ${last.status}.`;
}

function waiting(delivery, { attempts, last, now }) {
  if (!last) return `It has not been attempted yet; the first attempt is due ${until(delivery.due_at, now)}.`;
  const next = last.n + 1;
  return `It has not arrived because ${failed(attempts)}; retry ${next} of ${LAST_RETRY} is due ${until(delivery.due_at, now)}.`;
}

function parked(delivery, { attempts, url, now }) {
  const left = delivery.expires_at ? ` It expires ${until(delivery.expires_at, now)}.` : '';
  const before = attempts.length > 0 ? `After ${plural(attempts.length, 'failed attempt')}, it` : 'It';
  if (url?.state === 'frozen') {
    return `${before} is held back because its URL was frozen ${ago(url.since, now)}: nothing is attempted until someone enables the URL.${left}`;
  }
  if (url?.state === 'disabled') {
    const probe = url.next_probe_at ? `; the next probe is due ${until(url.next_probe_at, now)}` : '';
    return `${before} is held back because its URL was disabled ${ago(url.since, now)}${probe}, and a success releases it.${left}`;
  }
  if (url?.state === 'enabled') return `${before} was held back; its URL is enabled again, and it is being released.${left}`;
  return `${before} is held back because its URL is disabled or frozen.${left}`;
}

function dead(delivery, { attempts, last }) {
  switch (delivery.reason) {
    case 'exhausted':
      return `It was given up because all ${attempts.length || LAST_RETRY + 1} attempts failed; ${lastly(last)}. Replay it when the receiver works again.`;
    case 'expired':
      return `It was given up because its 52 hours passed before it arrived; ${last ? lastly(last) : 'it was held back and never attempted'}. Replay it when its URL is enabled.`;
    case 'unsubscribed':
      return 'It was given up because its subscription was deleted. It cannot be replayed.';
    case 'inactive':
      return 'It was given up because its subscription was deactivated. Activate the subscription, then replay it.';
    default:
      return `It was given up: ${delivery.reason}.`;
  }
}

function failed(attempts) {
  return attempts.length === 1
    ? `the first attempt failed (${outcomeOf(attempts[0])})`
    : `${attempts.length} attempts failed; ${lastly(attempts.at(-1))}`;
}

function lastly(attempt) {
  return attempt ? `the last one ended with ${outcomeOf(attempt)}` : 'no attempt is recorded';
}

/** "status 503", "timeout", "dns": the kind of an error is before its colon. */
export function outcomeOf(attempt) {
  if (attempt.outcome === 'interrupted') return 'an interruption of Holdfast';
  if (attempt.status) return `status ${attempt.status}`;
  return attempt.error?.split(':', 1)[0] ?? 'no answer';
}
