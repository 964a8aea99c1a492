// The shell: signs in, draws the frame around the pages, and shows the page of the address.

import { auditPage } from './audit.js';
import { clock } from './clock.js';
import { deliveriesPage } from './deliveries.js';
import { deliveryPage } from './delivery.js';
import { h, put } from './dom.js';
import { eventPage } from './event.js';
import { loadFeatures } from './features.js';
import { header } from './header.js';
import { failure } from './notice.js';
import { overviewPage } from './overview.js';
import { replayPage, replaysPage } from './replays.js';
import { parseHash } from './route.js';
import { searchPage } from './search.js';
import { session } from './session.js';
import { signIn, whoAmI } from './sign_in.js';
import { editSubscriptionPage, newSubscriptionPage } from './subscription_form.js';
import { subscriptionPage } from './subscription.js';
import { subscriptionsPage } from './subscriptions.js';
import { testPage } from './test.js';
import { urlPage } from './url.js';
import { urlsPage } from './urls.js';
import { View } from './view.js';

/** Patterns of the address; `:id` is any one segment. The first that matches is shown. */
const PAGES = [
  ['', overviewPage],
  ['urls', urlsPage],
  ['urls/:id', urlPage],
  ['deliveries', deliveriesPage],
  ['deliveries/:id', deliveryPage],
  ['events/:id', eventPage],
  ['subscriptions', subscriptionsPage],
  ['subscriptions/new', newSubscriptionPage],
  ['subscriptions/test', testPage],
  ['subscriptions/:id', subscriptionPage],
  ['subscriptions/:id/edit', editSubscriptionPage],
  ['replays', replaysPage],
  ['replays/:id', replayPage],
  ['audit', auditPage],
  ['search', searchPage],
];

const app = document.getElementById('app');
let view = null;
let frame = null;

function pageOf(segments) {
  const found = PAGES.find(([pattern]) => {
    const parts = pattern.split('/').filter(Boolean);
    return parts.length === segments.length && parts.every((part, index) => part === ':id' || part === segments[index]);
  });
  return found?.[1] ?? missingPage;
}

function missingPage(page) {
  page.show({
    title: 'Not found',
    lead: 'There is no such page. Choose one from the navigation, or search for an event, a URL or a delivery.',
  });
}

async function navigate() {
  // The skip link is no page.
  if (location.hash === '#main') {
    frame?.main.querySelector('h1')?.focus();
    return;
  }
  view?.leave();
  if (!session.key) {
    showSignIn();
    return;
  }
  const address = parseHash(location.hash);
  const isFirst = view === null;
  view = new View(frame.main, address);
  frame.mark(address.segments[0] ?? '');
  const shown = view;
  try {
    await pageOf(address.segments)(shown);
  } catch (error) {
    if (!shown.signal.aborted) problem(error, shown);
  }
  // Screen readers continue at the new page. On the first one, the browser starts at the top anyway.
  if (!isFirst && !shown.signal.aborted) frame.main.querySelector('h1')?.focus({ preventScroll: true });
  if (!isFirst) window.scrollTo(0, 0);
}

function problem(error, shown) {
  if (error.status === 401) {
    session.end();
    showSignIn('This key is no longer valid. Enter another one.');
    return;
  }
  if (error.status === undefined) console.error(error);
  shown.show({ title: 'This page could not be loaded' }, failure(error, navigate));
}

function showSignIn(message) {
  view?.leave();
  view = null;
  document.title = 'Sign in · Holdfast';
  put(app, signIn(start, message));
}

async function start() {
  put(app, h('p', { class: 'alone', role: 'status' }, 'Connecting…'));
  let me;
  try {
    [me] = await Promise.all([whoAmI(), loadFeatures()]);
  } catch (error) {
    if (error.status === 401 || error.status === 403) {
      session.end();
      showSignIn(error.status === 401 ? 'This key is not valid. Check that it is complete.' : `${error.message}`);
    } else {
      put(app, h('main', { class: 'alone' }, h('h1', {}, 'Holdfast'), failure(error, start)));
    }
    return;
  }
  frame = header(me, { navigate, signOut });
  put(app, frame.element);
  keepTime();
  await navigate();
}

function signOut() {
  session.end();
  location.hash = '#/';
  showSignIn('You are signed out. The key is forgotten.');
}

/** Countdowns need the server's clock and its rate; two readings a moment apart give both. */
let timekeeper;
function keepTime() {
  clearInterval(timekeeper);
  const read = () => {
    if (!document.hidden && session.key) whoAmI.clock().catch(() => {});
  };
  setTimeout(read, 1200);
  timekeeper = setInterval(read, 60_000);
}

window.addEventListener('hashchange', navigate);
if (session.key) start();
else showSignIn();

// For the tests, which check countdowns against the server's clock.
window.holdfastClock = clock;
