// Dialogs on the browser's own <dialog>: it keeps the focus inside, closes with Escape and gives the focus back.

import { h, put, uniqueId } from './dom.js';
import { failure } from './notice.js';

/**
 * Asks before something is done. `act` gets the form's values and does it; its error is shown in the dialog, which stays open. Resolves to
 * what `act` returned, or to undefined if the operator cancelled.
 */
export function confirm({ title, text, fields = [], action, tone = '', act }) {
  const { promise, resolve } = Promise.withResolvers?.() ?? withResolvers();
  const heading = uniqueId('dialog');
  const problem = h('div', {});
  const button = h('button', { type: 'submit', class: `primary ${tone}` }, action);
  const form = h(
    'form',
    { method: 'dialog', onsubmit: submit },
    h('h2', { id: heading }, title),
    h('div', { class: 'dialog-text' }, text),
    fields,
    problem,
    h('div', { class: 'dialog-actions' }, h('button', { type: 'button', onclick: () => dialog.close() }, 'Cancel'), button),
  );
  const dialog = h('dialog', { 'aria-labelledby': heading, onclose: closed }, form);
  let result;

  async function submit(event) {
    event.preventDefault();
    button.disabled = true;
    put(problem);
    try {
      result = (await act(new FormData(form))) ?? null;
      dialog.close();
    } catch (error) {
      put(problem, failure(error));
      button.disabled = false;
    }
  }

  function closed() {
    dialog.remove();
    resolve(result);
  }

  document.body.append(dialog);
  dialog.showModal();
  return promise;
}

/** Shows something that will not be shown again, until the operator says that it is stored. */
export function showOnce({ title, text, value }) {
  const { promise, resolve } = Promise.withResolvers?.() ?? withResolvers();
  const heading = uniqueId('dialog');
  const status = h('span', { role: 'status' });
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(value);
      status.textContent = 'Copied';
    } catch {
      // The clipboard is only there on https and localhost.
      getSelection().selectAllChildren(shown);
      status.textContent = 'Press Ctrl+C to copy';
    }
  };
  const shown = h('code', { class: 'secret', tabindex: '0' }, value);
  const dialog = h(
    'dialog',
    {
      'aria-labelledby': heading,
      onclose: () => {
        dialog.remove();
        resolve();
      },
    },
    h(
      'form',
      { method: 'dialog' },
      h('h2', { id: heading }, title),
      h('p', { class: 'dialog-text' }, text),
      shown,
      h(
        'div',
        { class: 'dialog-actions' },
        status,
        h('button', { type: 'button', onclick: copy }, 'Copy'),
        h('button', { type: 'submit', class: 'primary' }, 'I have stored it'),
      ),
    ),
  );
  document.body.append(dialog);
  dialog.showModal();
  return promise;
}

export function field(label, control, hint) {
  const id = control.id || uniqueId('field');
  control.id = id;
  const hintId = `${id}-hint`;
  if (hint) control.setAttribute('aria-describedby', hintId);
  return h('div', { class: 'field' }, h('label', { for: id }, label), control, hint && h('p', { class: 'hint', id: hintId }, hint));
}

export function reasonField() {
  return field(
    'Reason',
    h('input', { name: 'reason', maxlength: '1024', autocomplete: 'off' }),
    'Optional. It is kept in the history for the next operator.',
  );
}

function withResolvers() {
  let resolve;
  const promise = new Promise((done) => {
    resolve = done;
  });
  return { promise, resolve };
}
