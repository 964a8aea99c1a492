// One subscription: look, ping, rotate its secret, pause, delete.

import { address } from './address.js';
import { pathOf } from './api.js';
import { deliveryColumns } from './deliveries.js';
import { confirm, showOnce } from './dialog.js';
import { h, put } from './dom.js';
import { duration } from './format.js';
import { announce, failure, loading } from './notice.js';
import { href } from './route.js';
import { pill } from './state.js';
import { types } from './subscriptions.js';
import { listOf, pagedTable } from './table.js';
import { when } from './when.js';
import { outcomeOf } from './why.js';

export async function subscriptionPage(view) {
  const id = view.segments[1];
  const path = pathOf('subscriptions', id);
  view.show({ title: 'Subscription' }, loading('the subscription'));
  let subscription = await view.get(path);
  const facts = h('dl', { class: 'card rows' });
  const pinged = h('div', { class: 'results', role: 'status' });
  const button = (text, act, tone = '') => h('button', { type: 'button', class: tone, onclick: act }, text);
  const toggle = button('', pause);
  view.show(
    {
      title: subscription.description || subscription.url,
      kicker: 'Subscription',
      heading: subscription.description || address(subscription.url),
      actions: [
        button('Ping', ping, 'primary'),
        h('a', { class: 'button', href: view.href(['subscriptions', id, 'edit'], subscription) }, 'Edit'),
        button('Rotate secret', rotate),
        toggle,
        button('Delete', remove, 'danger'),
      ],
    },
    pinged,
    facts,
    deliveries(),
  );
  draw();

  function draw() {
    toggle.textContent = subscription.active ? 'Deactivate' : 'Activate';
    put(
      facts,
      [
        ['State', pill(subscription.active ? 'active' : 'inactive')],
        ['URL', h('a', { href: view.href(['urls', subscription.url_id], subscription) }, address(subscription.url))],
        ['Event types', types(subscription.event_types)],
        ['Filters', filters(subscription)],
        ['Token', subscription.has_auth_token ? 'sent as authorization: Bearer' : 'none'],
        ['Created', when(subscription.created_at)],
        ['Id', h('code', {}, subscription.id)],
      ].map(([name, value]) => h('div', {}, h('dt', {}, name), h('dd', {}, value))),
    );
  }

  async function ping() {
    put(pinged, loading('the answer', 1));
    try {
      put(pinged, pingResult(await view.send('POST', `${path}/ping`)));
    } catch (error) {
      // A frozen URL is not attempted by force either.
      const isDisabled = error.status === 409 && (await view.get(pathOf('urls', subscription.url_id)).catch(() => null))?.state === 'disabled';
      put(pinged, failure(error), isDisabled && h('div', { class: 'actions' }, button('Ping anyway', force)));
    }
  }

  async function force() {
    put(pinged, loading('the answer', 1));
    try {
      put(pinged, pingResult(await view.send('POST', `${path}/ping`, { force: true })));
    } catch (error) {
      put(pinged, failure(error));
    }
  }

  async function rotate() {
    const rotated = await confirm({
      title: 'Rotate the secret?',
      action: 'Rotate',
      text: h(
        'p',
        {},
        'A new secret is created. Attempts are signed with both for 24 hours, unless configured otherwise, so that the receiver has time to change.',
      ),
      act: () => view.send('POST', `${path}/rotate-secret`),
    });
    if (rotated)
      await showOnce({
        title: 'The new secret',
        text: 'Store it where the receiver reads it. It is not shown again.',
        value: rotated.secret,
      });
  }

  async function pause() {
    const active = !subscription.active;
    const changed = active
      ? await view.send('PATCH', path, { active }).catch((error) => {
          announce(error.message, 'bad');
        })
      : await confirm({
          title: 'Deactivate this subscription?',
          action: 'Deactivate',
          tone: 'danger',
          text: h(
            'p',
            {},
            'It gets no more events, and its waiting and parked deliveries are given up. They can be replayed once it is active again.',
          ),
          act: () => view.send('PATCH', path, { active }),
        });
    if (!changed) return;
    subscription = changed;
    announce(active ? 'The subscription is active.' : 'The subscription is inactive.');
    draw();
  }

  async function remove() {
    const removed = await confirm({
      title: 'Delete this subscription?',
      action: 'Delete',
      tone: 'danger',
      text: h('p', {}, 'Its waiting and parked deliveries are given up and cannot be replayed.'),
      act: () => view.send('DELETE', path),
    });
    if (removed === undefined) return;
    announce('The subscription is deleted.');
    location.hash = href('subscriptions', { tenant: view.query.get('tenant') });
  }

  function deliveries() {
    return h(
      'section',
      { 'aria-label': 'Deliveries' },
      h('div', { class: 'section-head' }, h('h2', {}, 'Deliveries')),
      pagedTable({
        view,
        caption: 'Deliveries of this subscription',
        columns: deliveryColumns(view, { withUrl: false }),
        sources: [listOf(view, '/v1/deliveries', { subscription: id })],
        empty: ['No deliveries yet', 'Ping it to see whether the receiver answers, or post an event that it wants.'],
      }),
    );
  }
}

function filters(subscription) {
  if (subscription.filters.length === 0) return h('span', { class: 'muted' }, 'none: every event of these types');
  return h(
    'ul',
    { class: 'filter-list' },
    subscription.filters.map(({ field, op, value }, index) =>
      h(
        'li',
        {},
        index > 0 && h('span', { class: 'muted' }, `${subscription.filter_connector} `),
        h('code', {}, `${field} ${op}${value === undefined ? '' : ` ${JSON.stringify(value)}`}`),
      ),
    ),
  );
}

function pingResult(attempt) {
  const good = attempt.outcome === 'success';
  return h(
    'div',
    { class: `verdict ${good ? 'ok' : 'bad'}` },
    h(
      'p',
      {},
      good
        ? `The receiver answered ${attempt.status} in ${duration(attempt.ms)}.`
        : `The ping failed (${outcomeOf(attempt)}): ${attempt.error ?? ''}`,
    ),
    attempt.excerpt && h('details', {}, h('summary', {}, 'Beginning of the answer'), h('pre', { tabindex: '0' }, attempt.excerpt)),
  );
}
