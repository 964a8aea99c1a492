// Charts over time, drawn as SVG at the real width of their box, so that lines and text stay sharp on every screen.

import { h, put, s } from './dom.js';
import { clockTime } from './format.js';

const HEIGHT = 168;
const LEFT = 54;
const RIGHT = 6;
const TOP = 10;
const BOTTOM = 24;

/**
 * `series` are `{name, tone, kind}`, kind 'bars' (stacked) or 'line'. `update({times, values, summary})` draws: one list of values for each
 * series, null where there is nothing. The reading of a point follows the pointer or the arrow keys.
 */
export function timeChart({ title, series, format, max, scale = linear }) {
  const plot = h('div', {
    class: 'plot',
    tabindex: '0',
    role: 'group',
    'aria-roledescription': 'chart',
    'aria-label': `${title}: use the arrow keys to read single values`,
  });
  const reading = h('p', { class: 'reading', 'aria-live': 'polite' });
  const headline = h('span', { class: 'chart-value' });
  const legend =
    series.length > 1 &&
    h(
      'ul',
      { class: 'legend' },
      series.map(({ name, tone, kind }) => h('li', {}, h('span', { class: `key ${tone} ${kind}`, 'aria-hidden': 'true' }), name)),
    );
  const element = h(
    'figure',
    { class: 'card chart' },
    h('figcaption', {}, h('span', { class: 'chart-title' }, title), headline),
    plot,
    h('div', { class: 'chart-foot' }, reading, legend),
  );
  let data = null;
  let chosen = null;
  let width = 0;

  new ResizeObserver(([entry]) => {
    width = entry.contentRect.width;
    draw();
  }).observe(plot);

  function choose(index, pointed) {
    chosen = index;
    reading.setAttribute('aria-live', pointed ? 'off' : 'polite');
    draw();
  }

  plot.addEventListener('pointermove', (event) => {
    if (!data) return;
    const share = (event.clientX - plot.getBoundingClientRect().left - LEFT) / (width - LEFT - RIGHT);
    choose(Math.min(data.times.length - 1, Math.max(0, Math.floor(share * data.times.length))), true);
  });
  plot.addEventListener('pointerleave', () => choose(null, true));
  plot.addEventListener('blur', () => choose(null, true));
  plot.addEventListener('keydown', (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step || !data) return;
    event.preventDefault();
    choose(Math.min(data.times.length - 1, Math.max(0, (chosen ?? data.times.length) + step)), false);
  });

  function draw() {
    // Without a minute there is nothing to draw, and no place for it.
    if (!data || data.times.length === 0 || width < 80) return;
    const { times, values } = data;
    const inner = { width: width - LEFT - RIGHT, height: HEIGHT - TOP - BOTTOM };
    const top = max ?? scale.top(highest(series, values));
    const x = (index) => LEFT + (index / times.length) * inner.width;
    const y = (value) => TOP + inner.height * (1 - scale.share(value, top));
    const step = inner.width / times.length;
    put(
      plot,
      s(
        'svg',
        { width, height: HEIGHT, role: 'img', 'aria-label': `${title}: ${data.summary}` },
        grid({ ticks: scale.ticks(top), y, width, format }),
        hours({ times, x, step, width }),
        chosen !== null && s('rect', { class: 'cursor', x: x(chosen), width: Math.max(step, 1), y: TOP, height: inner.height }),
        series[0].kind === 'bars'
          ? bars({ series, values, x, y, step })
          : series.map(({ tone }, index) => line({ tone, values: values[index], x, y, step })),
      ),
    );
    reading.textContent =
      chosen === null
        ? ''
        : `${clockTime(times[chosen])}  ${series.map(({ name }, index) => `${name} ${show(values[index][chosen], format)}`).join(' · ')}`;
  }

  return {
    element,
    update(next) {
      data = next;
      if (chosen !== null && chosen >= next.times.length) chosen = null;
      headline.textContent = next.headline ?? '';
      draw();
    },
  };
}

const show = (value, format) => (value === null ? '–' : format(value));

function highest(series, values) {
  if (series[0].kind === 'line') return Math.max(0, ...values.flat().filter((value) => value !== null));
  return Math.max(0, ...values[0].map((_, index) => values.reduce((sum, list) => sum + list[index], 0)));
}

/** 1, 2 or 5 times a power of ten, so that the grid has round numbers. */
export function niceMax(value) {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= value);
}

const linear = {
  // At least 2, so that half of it is a whole number too.
  top: (value) => Math.max(2, niceMax(value)),
  share: (value, top) => value / top,
  ticks: (top) => [0, top / 2, top],
};

/** For latencies: one timeout must not flatten everything else. Starts at 1. */
export const logarithmic = {
  top: (value) => 10 ** Math.max(1, Math.ceil(Math.log10(Math.max(1, value)))),
  share: (value, top) => Math.log10(Math.max(1, value)) / Math.log10(top),
  ticks: (top) => Array.from({ length: Math.round(Math.log10(top)) + 1 }, (_, power) => 10 ** power),
};

function grid({ ticks, y, width, format }) {
  return ticks.map((value, index) => {
    const at = Math.round(y(value)) + 0.5;
    return [
      s('line', { class: index === 0 ? 'axis' : 'grid', x1: LEFT, x2: width - RIGHT, y1: at, y2: at }),
      s('text', { class: 'tick end', x: LEFT - 8, y: at + 4 }, format(value)),
    ];
  });
}

function hours({ times, x, step, width }) {
  const labels = Math.max(2, Math.min(6, Math.floor(width / 110)));
  return Array.from({ length: labels }, (_, index) => {
    const at = Math.round(((times.length - 1) * index) / (labels - 1));
    const anchor = index === 0 ? 'start' : index === labels - 1 ? 'end' : 'middle';
    const place = index === labels - 1 ? x(at) + step : x(at) + (index === 0 ? 0 : step / 2);
    return s('text', { class: `tick ${anchor}`, x: place, y: HEIGHT - 6 }, clockTime(times[at]));
  });
}

function bars({ series, values, x, y, step }) {
  const gap = step > 5 ? 1.5 : step > 3 ? 1 : 0;
  return values[0].map((_, index) => {
    let below = 0;
    return series.map(({ tone }, which) => {
      const value = values[which][index];
      if (!value) return null;
      const from = y(below);
      below += value;
      // A single failure among thousands stays visible.
      const height = Math.max(1.5, from - y(below));
      return s('rect', {
        class: `mark ${tone}`,
        x: x(index) + gap / 2,
        width: Math.max(0.5, step - gap),
        y: from - height,
        height,
        rx: Math.min(1.5, step / 4),
      });
    });
  });
}

/** A gap where there are no values, and a dot where one stands alone. */
function line({ tone, values, x, y, step }) {
  const parts = [];
  let path = '';
  const flush = (last) => {
    if (path.includes('L')) parts.push(s('path', { class: `stroke ${tone}`, d: path }));
    else if (path) parts.push(s('circle', { class: `mark ${tone}`, cx: x(last) + step / 2, cy: y(values[last]), r: 2 }));
    path = '';
  };
  values.forEach((value, index) => {
    if (value === null) {
      flush(index - 1);
      return;
    }
    path += `${path ? 'L' : 'M'}${(x(index) + step / 2).toFixed(1)} ${y(value).toFixed(1)}`;
  });
  flush(values.length - 1);
  return parts;
}
