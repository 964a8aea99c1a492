// Times in the page: readable in the text, exact in the title.

import { clock } from './clock.js';
import { h } from './dom.js';
import { ago, dateTime } from './format.js';

export function when(at) {
  return h('time', { datetime: at, title: at }, dateTime(at));
}

export function since(view, at) {
  return h(
    'time',
    { datetime: at, title: at },
    view.ticking((now) => ago(at, now)),
  );
}

export function sinceNow(at) {
  return h('time', { datetime: at, title: at }, ago(at, clock.now()));
}
