// The changes of a URL's state, as a strip over time and as a list.

import { clock } from './clock.js';
import { h, s } from './dom.js';
import { plural } from './format.js';
import { pill, toneOf } from './state.js';
import { when } from './when.js';

/** Earlier ones are folded away. */
const LATEST_CHANGES = 4;

export function historyOf(url) {
  const changes = url.history ?? [];
  return [
    h('h2', {}, 'History'),
    changes.length === 0
      ? h('p', { class: 'muted' }, 'It has never changed its state.')
      : [
          strip(changes, url),
          changeList(changes.slice(0, LATEST_CHANGES)),
          changes.length > LATEST_CHANGES &&
            h(
              'details',
              {},
              h('summary', {}, `${plural(changes.length - LATEST_CHANGES, 'earlier change')}`),
              changeList(changes.slice(LATEST_CHANGES)),
            ),
        ],
  ];
}

function changeList(changes) {
  return h(
    'ol',
    { class: 'history' },
    changes.map((change) =>
      h(
        'li',
        { class: toneOf(change.to) },
        h('span', { class: 'history-dot', 'aria-hidden': 'true' }),
        h(
          'div',
          {},
          h('span', { class: 'history-what' }, pill(change.to), h('span', { class: 'muted' }, ` from ${change.from}`)),
          h('p', {}, change.why || 'no reason given'),
          h('p', { class: 'muted' }, when(change.at), ` · by ${change.by}`),
        ),
      ),
    ),
  );
}

/** The states over time as one strip, oldest left. */
function strip(changes, url) {
  const oldest = [...changes].reverse();
  const from = Date.parse(oldest[0].at);
  const end = clock.now();
  const span = Math.max(1, end - from);
  const lead = span * 0.08;
  const x = (time) => ((time - from + lead) / (span + lead)) * 1000;
  const parts = [
    { state: oldest[0].from, from: from - lead, to: from },
    ...oldest.map((change, index) => ({
      state: change.to,
      from: Date.parse(change.at),
      to: index + 1 < oldest.length ? Date.parse(oldest[index + 1].at) : end,
    })),
  ];
  return s(
    'svg',
    {
      class: 'strip',
      viewBox: '0 0 1000 12',
      preserveAspectRatio: 'none',
      role: 'img',
      'aria-label': `States over time: ${parts.map(({ state }) => state).join(', then ')}, since ${url.since}`,
    },
    parts.map((part) =>
      s(
        'rect',
        { class: `mark ${toneOf(part.state)}`, x: x(part.from), width: Math.max(3, x(part.to) - x(part.from)), height: 12 },
        s('title', {}, part.state),
      ),
    ),
  );
}
