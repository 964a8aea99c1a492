// Loading, empty and error states, and short messages about what was done.

import { h } from './dom.js';

/** Reads an outcome aloud and shows it for a few seconds. */
export function announce(text, kind = 'done') {
  document.getElementById('announcer').textContent = text;
  const toast = h('p', { class: `toast ${kind}` }, text);
  document.getElementById('toasts').append(toast);
  setTimeout(() => toast.remove(), 6000);
}

/** Only for screen readers: a list grew, a filter changed. */
export function whisper(text) {
  document.getElementById('announcer').textContent = text;
}

export function loading(what, rows = 4) {
  return h(
    'div',
    { class: 'loading', role: 'status' },
    h('span', { class: 'visually-hidden' }, `Loading ${what}…`),
    Array.from({ length: rows }, () => h('span', { class: 'skeleton', 'aria-hidden': 'true' })),
  );
}

export function empty(title, text, ...actions) {
  return h(
    'div',
    { class: 'empty' },
    h('p', { class: 'empty-title' }, title),
    text && h('p', {}, text),
    actions.length > 0 && h('div', { class: 'actions' }, actions),
  );
}

export function newerServer(what) {
  return empty(
    `${what} needs a newer server`,
    'This Holdfast does not have the call for it yet. Upgrade the server; the console needs no change.',
  );
}

/** What went wrong and what to do; `retry` is called by the button. */
export function failure(error, retry) {
  return h(
    'div',
    { class: 'failure', role: 'alert' },
    h('p', { class: 'failure-title' }, heading(error)),
    h('p', {}, error.message),
    error.errors?.length > 1 &&
      h(
        'ul',
        {},
        error.errors.map(({ field, detail }) => h('li', {}, h('code', {}, field), ` ${detail}`)),
      ),
    retry && h('div', { class: 'actions' }, h('button', { type: 'button', onclick: retry }, 'Try again')),
  );
}

function heading(error) {
  const headings = {
    0: 'No connection',
    403: 'This key may not do that',
    404: 'Not found',
    409: 'Not possible now',
    429: 'Too many requests',
    503: 'Not available at the moment',
  };
  return headings[error.status] ?? error.title ?? 'Something went wrong';
}
