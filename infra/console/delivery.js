// One delivery: why it has not arrived, on one picture and in one sentence.

import { address } from './address.js';
import { pathOf } from './api.js';
import { clock } from './clock.js';
import { confirm } from './dialog.js';
import { h, put } from './dom.js';
import { duration } from './format.js';
import { announce, empty, failure, loading } from './notice.js';
import { pill, toneOf } from './state.js';
import { row, table } from './table.js';
import { timeline } from './timeline.js';
import { when } from './when.js';
import { outcomeOf, whyNotArrived } from './why.js';

const REFRESH_MS = 4000;

export async function deliveryPage(view) {
  const id = view.segments[1];
  const path = pathOf('deliveries', id);
  view.show({ title: 'Delivery' }, loading('the delivery'));
  let delivery = await view.get(path);
  let url = null;
  let epoch = delivery.epoch;
  const sentenceBox = h('p', {});
  const because = h('p', { class: 'because' });
  const verdict = h('div', {}, sentenceBox, because);
  const chart = h('div', {});
  const attempts = h('section', { 'aria-label': 'Attempts' });
  const facts = h('dl', { class: 'card rows' });
  const actions = h('div', { class: 'actions' });
  let line = null;
  view.show(
    {
      title: `Delivery of ${delivery.event_id}`,
      kicker: 'Delivery',
      heading: [delivery.event_id, ' ', h('span', { class: 'muted' }, delivery.type)],
      actions: [actions],
    },
    verdict,
    chart,
    attempts,
    facts,
  );

  function draw() {
    sentence();
    put(
      actions,
      pill(delivery.state),
      (delivery.state === 'dead' || delivery.state === 'delivered') &&
        delivery.reason !== 'unsubscribed' &&
        h('button', { type: 'button', onclick: replay, class: delivery.state === 'dead' ? 'primary' : '' }, 'Replay'),
    );
    line = timeline(delivery, epoch, () => clock.now());
    put(chart, epochs(), line.element);
    put(attempts, attemptsOf(delivery, epoch));
    put(facts, factsOf(view, delivery));
  }

  function sentence() {
    verdict.className = `verdict ${toneOf(delivery.state)}`;
    const text = whyNotArrived(delivery, url, clock.now());
    if (sentenceBox.textContent !== text) sentenceBox.textContent = text;
  }

  /** A replay starts a new schedule; the earlier ones stay readable. */
  function epochs() {
    if (delivery.epoch === 0) return null;
    const numbers = Array.from({ length: delivery.epoch + 1 }, (_, index) => index);
    return h(
      'div',
      { class: 'segments', role: 'group', 'aria-label': 'Schedule' },
      numbers.map((index) =>
        h(
          'button',
          {
            type: 'button',
            'aria-pressed': String(index === epoch),
            onclick: () => {
              epoch = index;
              draw();
              chart.querySelector(`[aria-pressed="true"]`)?.focus();
            },
          },
          index === 0 ? 'First schedule' : `Replay ${index}`,
        ),
      ),
    );
  }

  async function replay() {
    const started = await confirm({
      title: 'Replay this delivery?',
      action: 'Replay',
      text: h(
        'p',
        {},
        'It gets a new schedule of up to 12 attempts. The receiver gets the same body with the same webhook-id, so it can recognise it.',
      ),
      act: () => view.send('POST', `${path}/replay`),
    });
    if (!started) return;
    announce('The delivery is being replayed.');
    await refresh(true);
    view.main.querySelector('h1').focus();
  }

  async function refresh(isForced) {
    try {
      const newer = await view.get(path);
      const [health, explained] = await Promise.all([
        view.get(pathOf('urls', newer.url_id)).catch(() => null),
        newer.state === 'delivered' ? null : view.get('/v1/explain', { event: newer.event_id, subscription: newer.subscription_id }),
      ]);
      const changed = isForced || JSON.stringify(newer) !== JSON.stringify(delivery);
      if (newer.epoch !== delivery.epoch) epoch = newer.epoch;
      [delivery, url] = [newer, health];
      put(because, explained && causes(explained));
      if (changed && !chart.contains(document.activeElement)) draw();
    } catch (error) {
      if (!view.signal.aborted && error.status !== 429)
        put(
          attempts,
          failure(error, () => refresh(true)),
        );
    }
  }

  draw();
  const second = setInterval(() => {
    sentence();
    line.draw();
  }, 1000);
  view.signal.addEventListener('abort', () => clearInterval(second));
  view.repeat(REFRESH_MS, refresh);
}

/** What the server knows of the reasons: the state of the URL, and the last error in full. */
function causes({ verdict, url_state: state, url_since: at, url_reason: reason, last_status: status, last_error: text }) {
  // A status is in the sentence already.
  const error = verdict === 'waiting' && status ? null : text;
  return [
    state && state !== 'enabled' && [`The URL is ${state} since `, when(at), `: ${reason}.`],
    state && state !== 'enabled' && error && ' ',
    error && ['Last error: ', h('code', {}, error)],
  ];
}

function attemptsOf(delivery, epoch) {
  const made = delivery.attempts.filter((attempt) => attempt.epoch === epoch);
  const heading = h('div', { class: 'section-head' }, h('h2', {}, 'Attempts'));
  if (made.length === 0)
    return [
      heading,
      empty(
        'No attempt was made',
        delivery.state === 'parked' ? 'It was parked before its first attempt.' : 'The first attempt is about to be made.',
      ),
    ];
  const first = Date.parse(made[0].at);
  const columns = [
    { name: 'Attempt', cell: (attempt) => (attempt.n === 0 ? 'First' : `Retry ${attempt.n}`) },
    {
      name: 'Outcome',
      cell: (attempt) => pill(attempt.outcome, attempt.outcome === 'success' ? `status ${attempt.status}` : outcomeOf(attempt)),
    },
    {
      name: 'Started',
      cell: (attempt) => [
        when(attempt.at),
        attempt.n > 0 && h('span', { class: 'below' }, `${duration(Date.parse(attempt.at) - first)} after the first`),
      ],
    },
    { name: 'Took', align: 'number', cell: (attempt) => duration(attempt.ms) },
    { name: 'Answer', wide: true, cell: answer },
  ];
  return [
    heading,
    h(
      'div',
      { class: 'list' },
      h(
        'div',
        { class: 'scroll' },
        table({ caption: 'Attempts, newest first', columns, rows: [...made].reverse().map((attempt) => row(columns, attempt)) }),
      ),
    ),
  ];
}

function answer(attempt) {
  const parts = [attempt.error && h('span', {}, attempt.error)];
  if (attempt.excerpt)
    parts.push(h('details', {}, h('summary', {}, 'Beginning of the answer'), h('pre', { tabindex: '0' }, attempt.excerpt)));
  return parts.some(Boolean) ? parts : h('span', { class: 'muted' }, '–');
}

function factsOf(view, delivery) {
  const facts = [
    ['URL', h('a', { href: view.href(['urls', delivery.url_id], delivery) }, address(delivery.url))],
    ['Event', h('a', { href: view.href(['events', delivery.event_id], delivery) }, delivery.event_id)],
    ['Subscription', h('a', { href: view.href(['subscriptions', delivery.subscription_id], delivery) }, delivery.subscription_id)],
    ['Delivery id', h('code', {}, delivery.id)],
    ['Accepted', when(delivery.accepted_at)],
    delivery.due_at && ['Due', when(delivery.due_at)],
    delivery.expires_at && ['Expires', when(delivery.expires_at)],
    delivery.reason && ['Reason', delivery.reason],
    ['Replays', String(delivery.epoch)],
  ].filter(Boolean);
  return facts.map(([name, value]) => h('div', {}, h('dt', {}, name), h('dd', {}, value)));
}
