// Create and edit a subscription.

import { pathOf } from './api.js';
import { field, showOnce } from './dialog.js';
import { h, put } from './dom.js';
import { announce, failure, loading } from './notice.js';
import { session } from './session.js';

const OPERATORS = ['eq', 'ne', 'gt', 'gte', 'lt', 'lte', 'contains', 'changed', 'exists'];

export function newSubscriptionPage(view) {
  const form = subscriptionForm(
    view,
    { event_types: ['*'], filters: [], filter_connector: 'and', active: true },
    'Create',
    async (wanted, tenant) => {
      if (tenant) view.query.set('tenant', tenant);
      const created = await view.send('POST', '/v1/subscriptions', wanted);
      if (!wanted.secret)
        await showOnce({
          title: 'The signing secret',
          text: 'The receiver verifies requests with it. Store it now: it is not shown again.',
          value: created.secret,
        });
      announce('The subscription is created.');
      location.hash = view.href(['subscriptions', created.id], created);
    },
    true,
  );
  view.show({ title: 'New subscription', lead: 'Deliver events of these types to this URL.' }, form);
}

export async function editSubscriptionPage(view) {
  const id = view.segments[1];
  view.show({ title: 'Edit subscription' }, loading('the subscription'));
  const subscription = await view.get(pathOf('subscriptions', id));
  const form = subscriptionForm(
    view,
    subscription,
    'Save',
    async (wanted) => {
      await view.send('PATCH', pathOf('subscriptions', id), wanted);
      announce('The subscription is saved.');
      location.hash = view.href(['subscriptions', id], subscription);
    },
    false,
  );
  view.show(
    {
      title: 'Edit subscription',
      lead: 'A change applies to new events at once. With a new URL, waiting and parked deliveries move there.',
    },
    form,
  );
}

function subscriptionForm(view, initial, action, save, isNew) {
  const url = h('input', {
    name: 'url',
    type: 'url',
    required: true,
    maxlength: '2048',
    value: initial.url ?? '',
    placeholder: 'https://receiver.example/webhooks',
  });
  const eventTypes = h('textarea', {
    name: 'event_types',
    rows: '3',
    required: true,
    spellcheck: 'false',
    value: initial.event_types.join('\n'),
  });
  const description = h('input', { name: 'description', maxlength: '1024', value: initial.description ?? '' });
  const token = h('input', {
    name: 'auth_token',
    type: 'password',
    autocomplete: 'off',
    placeholder: initial.has_auth_token ? 'unchanged' : '',
  });
  const secret =
    isNew &&
    h('input', { name: 'secret', type: 'password', autocomplete: 'off', placeholder: 'generated' });
  const tenant = isNew && needsTenant(view) && h('input', { name: 'tenant', required: true, autocomplete: 'off' });
  const filters = filterRows(initial);
  const problem = h('div', {});
  const submit = h('button', { type: 'submit', class: 'primary' }, action);

  const send = async (event) => {
    event.preventDefault();
    submit.disabled = true;
    put(problem);
    try {
      const wanted = {
        url: url.value,
        event_types: eventTypes.value.split(/[\s,]+/).filter(Boolean),
        description: description.value || null,
        ...filters.read(),
      };
      if (token.value) wanted.auth_token = token.value;
      if (secret && secret.value) wanted.secret = secret.value;
      await save(wanted, tenant ? tenant.value.trim() : null);
    } catch (error) {
      put(problem, failure(error));
    }
    submit.disabled = false;
  };

  return h(
    'form',
    { class: 'card form', onsubmit: send },
    tenant && field('Tenant', tenant, 'Your key is for all tenants: say which one this is for.'),
    field('URL', url, 'https, without a user name or password. The receiver must answer 2xx within 5 seconds.'),
    field('Event types', eventTypes, 'One on each line. * stands for one segment, and alone for all types.'),
    filters.element,
    field('Description', description, 'Optional, for people.'),
    field('Token', token, 'Optional. Sent as authorization: Bearer … and never shown.'),
    secret &&
      field(
        'Own secret',
        secret,
        'Optional: whsec_… to keep verifying with a secret you already have. Otherwise one is generated and shown once.',
      ),
    problem,
    h(
      'div',
      { class: 'actions' },
      submit,
      h('a', { class: 'button', href: view.href(isNew ? 'subscriptions' : ['subscriptions', view.segments[1]]) }, 'Cancel'),
    ),
  );
}

/** An operator who looks at all tenants has to name one. */
function needsTenant(view) {
  return !view.tenant && session.isForAll;
}

function filterRows(initial) {
  const rows = h('div', { class: 'filter-rows' });
  const connector = h(
    'select',
    { 'aria-label': 'How filters are joined' },
    [
      ['and', 'all must match'],
      ['or', 'one must match'],
    ].map(([value, text]) => h('option', { value }, text)),
  );
  connector.value = initial.filter_connector;
  const add = (filter = { field: '', op: 'eq', value: undefined }) => {
    const name = h('input', {
      'aria-label': 'Field',
      placeholder: 'data.order.total',
      value: filter.field,
      required: true,
      spellcheck: 'false',
    });
    const op = h(
      'select',
      { 'aria-label': 'Operator' },
      OPERATORS.map((each) => h('option', { value: each }, each)),
    );
    op.value = filter.op;
    const value = h('input', {
      'aria-label': 'Value, as JSON or text',
      placeholder: 'value',
      value: filter.value === undefined ? '' : JSON.stringify(filter.value),
      spellcheck: 'false',
    });
    const each = h(
      'div',
      { class: 'filter-row' },
      name,
      op,
      value,
      h('button', { type: 'button', class: 'quiet', 'aria-label': `Remove the filter`, onclick: () => each.remove() }, '×'),
    );
    each.read = () => ({ field: name.value.trim(), op: op.value, ...(value.value === '' ? {} : { value: parsed(value.value) }) });
    rows.append(each);
    return name;
  };
  initial.filters.forEach(add);
  const element = h(
    'fieldset',
    {},
    h('legend', {}, 'Filters'),
    h('p', { class: 'hint' }, 'Optional conditions on the event, such as data.order.total gte 1000.'),
    rows,
    h('div', { class: 'actions' }, h('button', { type: 'button', onclick: () => add().focus() }, 'Add a filter'), connector),
  );
  return { element, read: () => ({ filters: [...rows.children].map((each) => each.read()), filter_connector: connector.value }) };
}

/** `12`, `true` and `"12"` are what JSON says; anything else is text. */
export function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
