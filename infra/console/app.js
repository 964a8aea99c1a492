// The shell: signs in, draws the frame around the pages, and shows the page of the address.

import { auditPage } from './audit.js';
import { clock } from './clock.js';
import { deliveriesPage } from './deliveries.js';
import { deliveryPage } from './delivery.js';
import { h, put } from './dom.js';
import { eventPage } from './event.js';
import { eventsPage } from './events.js';
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
  ['events', eventsPage],
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
let hasInteracted = false;

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
  // While signing in there is no frame; it shows the page of the address when it is done.
  if (!frame) return;
  view?.leave();
  const address = parseHash(location.hash);
  view = new View(frame.main, address);
  frame.mark(address.segments[0] ?? '');
  const shown = view;
  try {
    await pageOf(address.segments)(shown);
  } catch (error) {
    if (!shown.signal.aborted) problem(error, shown);
  }
  if (shown.signal.aborted) return;
  // Screen readers continue at the new page. When the page was just loaded, they start at the top anyway.
  if (hasInteracted) {
    frame.main.querySelector('h1')?.focus({ preventScroll: true });
    window.scrollTo(0, 0);
  }
  hasInteracted = true;
}

function problem(error, shown) {
  if (error.status === undefined) console.error(error);
  shown.show({ title: 'This page could not be loaded' }, failure(error, navigate));
}

function showSignIn(message) {
  view?.leave();
  view = null;
  frame = null;
  hasInteracted = true;
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
  // Without an event: there is no page to show.
  history.replaceState(null, '', '#/');
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

document.addEventListener('key-refused', () => {
  // Before there is a frame, signing in reports it.
  if (!frame) return;
  session.end();
  showSignIn('This key is no longer valid. Enter another one.');
});
// The hash is the address of a page, so the skip link moves the focus itself.
document.querySelector('.skip').addEventListener('click', (event) => {
  event.preventDefault();
  document.querySelector('main h1')?.focus();
});
window.addEventListener('hashchange', navigate);
if (session.key) start();
else showSignIn();

// For the tests, which check countdowns against the server's clock.
window.holdfastClock = clock;
