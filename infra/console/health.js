// How close a URL is to the thresholds that disable or freeze it.

import { bar } from './bar.js';
import { clock } from './clock.js';
import { h } from './dom.js';
import { ago, number, percent, plural } from './format.js';
import { outcomeOf } from './why.js';

/** More than this share of more than so many attempts disables a URL. */
const MAX_FAILURE_SHARE = 0.7;
export const MIN_WINDOW_ATTEMPTS = 100;
/** Without a success for so long, 2,000 failures in a row freeze it. */
const MAX_SILENCE_MS = 72 * 3_600_000;
/** The bar ends here, so that the line is visibly before its end. */
const SILENCE_SHOWN_MS = 96 * 3_600_000;

export function failureRate(url) {
  const share = url.window_attempts ? url.window_failures / url.window_attempts : 0;
  return bar({
    value: share,
    line: MAX_FAILURE_SHARE,
    over: share > MAX_FAILURE_SHARE,
    text: url.window_attempts
      ? `${percent(url.window_failures, url.window_attempts)} of ${number(url.window_attempts)}`
      : 'no attempts yet',
    lineText: 'a URL is disabled above 70 % of more than 100 attempts',
  });
}

export function silence(url) {
  if (!url.last_success_at)
    return bar({ value: 0, line: MAX_SILENCE_MS / SILENCE_SHOWN_MS, text: url.window_attempts ? 'never' : 'not attempted yet' });
  const past = clock.now() - Date.parse(url.last_success_at);
  // An idle URL without failures is healthy however long ago it was used.
  const matters = url.streak > 0;
  return bar({
    value: matters ? past / SILENCE_SHOWN_MS : 0,
    line: MAX_SILENCE_MS / SILENCE_SHOWN_MS,
    over: matters && past > MAX_SILENCE_MS,
    text: ago(url.last_success_at, clock.now()),
    lineText: 'a URL can be frozen after 72 hours without success',
  });
}

/** Why it is in trouble: the last error if the server says it, or the reason of its state. */
export function trouble(url) {
  if (url.state === 'enabled' && url.streak === 0) return null;
  const error = url.last_error;
  if (error) {
    const kind = error.status ? `status ${error.status}` : (error.kind ?? outcomeOf({ error: error.text }));
    return h('span', { class: 'trouble' }, h('strong', {}, kind), error.text ? ` ${error.text}` : '');
  }
  const streak = url.streak > 0 ? `${plural(url.streak, 'failure')} in a row` : '';
  const reason = url.reason === 'created' ? '' : url.reason;
  return h('span', { class: 'trouble' }, [reason, streak].filter(Boolean).join(' · '));
}
