// The frame around every page: brand, search, tenant, theme, navigation.

import { h, put } from './dom.js';
import { clock } from './clock.js';
import { number } from './format.js';
import { href } from './route.js';
import { chooseTheme, chosenTheme, session } from './session.js';

const NAVIGATION = [
  ['', 'Overview'],
  ['urls', 'URLs'],
  ['events', 'Events'],
  ['deliveries', 'Deliveries'],
  ['subscriptions', 'Subscriptions'],
  ['replays', 'Replays'],
  ['audit', 'Audit'],
];
/** Below this, the clock runs at real time for all an operator can see. */
const FAST = 1.5;

export function header(me, { navigate, signOut }) {
  const links = NAVIGATION.map(([segment, name]) => h('a', { href: href(segment), 'data-segment': segment }, name));
  const main = h('main', { id: 'main', tabindex: '-1' });
  const search = h('input', {
    type: 'search',
    name: 'q',
    'aria-label': 'Search for an event id, a URL or a delivery id',
    placeholder: 'Event id, URL, delivery id',
    autocomplete: 'off',
    spellcheck: 'false',
  });
  const find = (event) => {
    event.preventDefault();
    if (search.value.trim()) location.hash = href('search', { q: search.value.trim() });
  };
  const element = h(
    'div',
    { class: 'frame' },
    h(
      'header',
      { class: 'top' },
      h(
        'a',
        { class: 'brand', href: '#/', 'aria-label': 'Holdfast, overview' },
        h('span', { class: 'logo', 'aria-hidden': 'true' }),
        h('span', { class: 'brand-name' }, 'Holdfast'),
      ),
      h('form', { class: 'search', role: 'search', onsubmit: find }, search),
      h(
        'div',
        { class: 'tools' },
        speedNote(),
        me.isOperator && tenantChoice(me, navigate),
        themeButton(),
        h('button', { type: 'button', class: 'quiet', onclick: signOut }, 'Sign out'),
      ),
    ),
    h('nav', { 'aria-label': 'Pages' }, links),
    main,
  );
  const mark = (segment) => {
    const shown = segment === 'events' || segment === 'search' ? 'deliveries' : segment;
    for (const link of links) {
      if (link.dataset.segment === shown && segment !== 'search') link.setAttribute('aria-current', 'page');
      else link.removeAttribute('aria-current');
    }
  };
  // "/" is where people look for search.
  document.onkeydown = (event) => {
    if (
      event.key === '/' &&
      !event.ctrlKey &&
      !event.metaKey &&
      !/^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName) &&
      !document.querySelector('dialog')
    ) {
      event.preventDefault();
      search.focus();
    }
  };
  return { element, main, mark };
}

function tenantChoice(me, navigate) {
  const names = me.tenants.length > 0 || !session.tenant ? me.tenants : [session.tenant];
  if (names.length === 0 || (me.hasTenant && names.length === 1)) return null;
  const choice = h(
    'select',
    { 'aria-label': 'Tenant' },
    h('option', { value: '' }, me.hasTenant ? 'Own tenant' : 'All tenants'),
    names.map((name) => h('option', { value: name, selected: name === session.tenant }, name)),
  );
  choice.value = session.tenant ?? '';
  choice.addEventListener('change', () => {
    session.tenant = choice.value || null;
    // A page of one item belongs to its tenant, so the lists start again.
    const top = location.hash.replace(/^(#\/[^/?]*).*$/s, '$1');
    if (top === location.hash) navigate();
    else location.hash = top;
  });
  return choice;
}

function themeButton() {
  const order = [null, 'light', 'dark'];
  const names = { null: 'System theme', light: 'Light theme', dark: 'Dark theme' };
  const button = h('button', { type: 'button', class: 'quiet theme' });
  const draw = () => {
    const theme = String(chosenTheme());
    button.setAttribute('aria-label', `${names[theme]}; switch`);
    button.title = `${names[theme]}; switch`;
    put(button, h('span', { class: `theme-icon theme-${theme}`, 'aria-hidden': 'true' }));
  };
  button.addEventListener('click', () => {
    chooseTheme(order[(order.indexOf(chosenTheme()) + 1) % order.length]);
    draw();
  });
  draw();
  return button;
}

/** With `holdfast dev --speed` times pass faster than the operator's watch; the page says so. */
function speedNote() {
  const note = h('span', { class: 'speed', hidden: true });
  setInterval(() => {
    note.hidden = clock.rate < FAST;
    // Two digits are as much as is known: the network takes its time too.
    note.textContent = `${number(Number(clock.rate.toPrecision(2)))}× faster`;
    note.title = 'The schedule clock of this server is accelerated (--speed).';
  }, 1000);
  return note;
}
