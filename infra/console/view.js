// What a page gets from the shell: a place to draw, the parts of its address, and timers and requests that end when it is left.

import { call } from './api.js';
import { clock } from './clock.js';
import { h, put } from './dom.js';
import { href } from './route.js';
import { session } from './session.js';

export class View {
  #leaving = new AbortController();
  #ticking = new Set();

  constructor(main, { segments, query }) {
    this.main = main;
    this.segments = segments;
    this.query = query;
    const timer = setInterval(() => this.#tick(), 1000);
    this.signal.addEventListener('abort', () => clearInterval(timer));
  }

  get signal() {
    return this.#leaving.signal;
  }
  /** The tenant of this page: that of its address, or the one the operator chose. */
  get tenant() {
    return this.query.get('tenant') ?? session.tenant;
  }

  leave() {
    this.#leaving.abort();
  }

  get(path, query) {
    return call('GET', path, { query, tenant: this.tenant, signal: this.signal });
  }
  /** A change is not aborted when the page is left: the operator asked for it. */
  send(method, path, body) {
    return call(method, path, { body, tenant: this.tenant });
  }

  /** The address of an item: lists of all tenants name the tenant of each. */
  href(segments, item = {}, query = {}) {
    return href(segments, { ...query, tenant: item.tenant ?? this.query.get('tenant') });
  }

  /** Draws the page below its heading. `lead` says what the page is for; `actions` are buttons beside the heading. */
  show({ title, lead, actions = [], heading = title, kicker }, ...content) {
    document.title = `${title} · Holdfast`;
    put(
      this.main,
      h(
        'div',
        { class: 'page-head' },
        h(
          'div',
          { class: 'page-title' },
          kicker && h('p', { class: 'kicker' }, kicker),
          h('h1', { tabindex: '-1' }, heading),
          lead && h('p', { class: 'lead' }, lead),
        ),
        actions.length > 0 && h('div', { class: 'actions' }, actions),
      ),
      ...content,
    );
  }

  /** Changes the query of the address without a new page, so that the focus stays and a reload shows the same. */
  remember(query) {
    history.replaceState(null, '', href(this.segments, { ...Object.fromEntries(this.query), ...query }));
  }

  /** Runs `work` now and again `ms` after it ended, but never while the tab is hidden. */
  repeat(ms, work) {
    let timer;
    const run = async () => {
      clearTimeout(timer);
      if (this.signal.aborted) return;
      if (!document.hidden) await work();
      if (!this.signal.aborted) timer = setTimeout(run, ms);
    };
    document.addEventListener(
      'visibilitychange',
      () => {
        if (!document.hidden) run();
      },
      { signal: this.signal },
    );
    this.signal.addEventListener('abort', () => clearTimeout(timer));
    return run();
  }

  /** Keeps a text current that depends on the time: `text` gets the server's time. */
  ticking(text, attributes) {
    const element = h('span', attributes, text(clock.now()));
    this.#ticking.add({ element, text });
    return element;
  }

  #tick() {
    const now = clock.now();
    for (const each of this.#ticking) {
      // Replaced by a newer one.
      if (!each.element.isConnected) this.#ticking.delete(each);
      else if (each.element.textContent !== each.text(now)) each.element.textContent = each.text(now);
    }
  }
}
