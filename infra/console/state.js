// States and outcomes. Each has a shape beside its colour, so that nothing depends on telling colours apart.

import { h, s } from './dom.js';

const SHAPES = {
  check: 'M3.5 8.5l3 3 6-7',
  cross: 'M4 4l8 8M12 4l-8 8',
  dot: 'M8 8h.01',
  pause: 'M6 4v8M10 4v8',
  flake: 'M8 2v12M2.8 5l10.4 6M13.2 5L2.8 11',
  clock: 'M8 4.5V8l2.5 1.5M14 8A6 6 0 1 1 2 8a6 6 0 0 1 12 0z',
  half: 'M8 3v10M5 6v4M11 6v4',
};

const STATES = {
  enabled: ['ok', 'check'],
  disabled: ['warn', 'pause'],
  frozen: ['ice', 'flake'],
  delivered: ['ok', 'check'],
  waiting: ['wait', 'clock'],
  parked: ['hold', 'pause'],
  dead: ['bad', 'cross'],
  success: ['ok', 'check'],
  failure: ['bad', 'cross'],
  interrupted: ['warn', 'half'],
  running: ['wait', 'clock'],
  done: ['ok', 'check'],
  active: ['ok', 'check'],
  inactive: ['quiet', 'pause'],
  failing: ['bad', 'cross'],
};

export function toneOf(state) {
  return (STATES[state] ?? ['quiet', 'dot'])[0];
}

export function icon(state) {
  const shape = (STATES[state] ?? ['quiet', 'dot'])[1];
  return s('svg', { class: 'icon', viewBox: '0 0 16 16', 'aria-hidden': 'true' }, s('path', { d: SHAPES[shape] }));
}

export function pill(state, text = state) {
  return h('span', { class: `pill ${toneOf(state)}` }, icon(state), text);
}
