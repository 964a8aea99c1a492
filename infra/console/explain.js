// Why an event did or did not reach a subscription, as the server explains it.

import { address } from './address.js';
import { h } from './dom.js';
import { number } from './format.js';
import { pill } from './state.js';
import { when } from './when.js';

const TONES = { delivered: 'ok', waiting: 'wait', on_its_way: 'wait', parked: 'hold', dead: 'bad' };

/** The sentence, and the facts that it follows from. */
export function explanation(view, answer) {
  const facts = factsOf(view, answer);
  return [
    h('p', { class: `verdict ${TONES[answer.verdict] ?? 'warn'}` }, answer.summary),
    facts.length > 0 &&
      h(
        'dl',
        { class: 'rows' },
        facts.map(([name, value]) => h('div', {}, h('dt', {}, name), h('dd', {}, value))),
      ),
  ];
}

/** "data.total gte 10 found 3": which filter refused an event, and what it found. */
export function refusal({ filter, found, is_missing: isMissing }) {
  const wanted = filter.value === undefined ? '' : ` ${JSON.stringify(filter.value)}`;
  return ['the filter ', h('code', {}, `${filter.field} ${filter.op}${wanted}`), ' found ', h('code', {}, isMissing ? 'nothing' : JSON.stringify(found))];
}

function factsOf(view, answer) {
  return [
    answer.refused_by && ['Refused by', refusal(answer.refused_by)],
    answer.verdict === 'type_not_subscribed' && ['It asks for', h('code', {}, answer.event_types.join(', '))],
    answer.subscribed_at && answer.verdict === 'subscribed_later' && ['Subscribed', when(answer.subscribed_at)],
    answer.accepted_at && ['Accepted', when(answer.accepted_at)],
    answer.url_id && ['URL', urlOf(view, answer)],
    answer.attempts !== null && answer.attempts > 0 && ['Attempts', number(answer.attempts)],
    answer.last_attempt_at && ['Last attempt', [when(answer.last_attempt_at), answer.last_error && h('span', { class: 'below' }, answer.last_error)]],
    answer.due_at && [`Retry ${answer.next_retry}`, when(answer.due_at)],
    answer.expires_at && ['Expires', when(answer.expires_at)],
    answer.delivered_at && ['Arrived', when(answer.delivered_at)],
    answer.delivery_id && ['Delivery', h('a', { href: view.href(['deliveries', answer.delivery_id]) }, answer.delivery_id)],
  ].filter(Boolean);
}

function urlOf(view, answer) {
  return [
    h('a', { href: view.href(['urls', answer.url_id]) }, answer.url ? address(answer.url) : answer.url_id),
    ' ',
    answer.url_state && pill(answer.url_state),
    answer.url_state && answer.url_state !== 'enabled' && h('span', { class: 'below' }, answer.url_reason, ', since ', when(answer.url_since)),
  ];
}
