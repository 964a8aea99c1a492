// Answers for pages that a real server cannot show quickly or at all: long lists, hostile text, calls of newer servers.

const NOW = '2026-01-02T12:00:00.000Z';

export const json = (body, status = 200) => ({ status, contentType: 'application/json', body: JSON.stringify(body) });

export function url(index, more = {}) {
  return {
    id: `url_${String(index).padStart(26, '0')}`,
    url: `https://receiver-${index}.example/webhooks`,
    state: 'disabled',
    since: '2026-01-02T11:00:00.000Z',
    reason: '101 of 101 attempts failed',
    streak: 120,
    window_attempts: 130,
    window_failures: 120,
    window_first_attempts: 100,
    window_first_failures: 90,
    last_success_at: '2026-01-01T12:00:00.000Z',
    next_probe_at: '2026-01-02T12:05:00.000Z',
    generation: 1,
    releasing: false,
    ...more,
  };
}

export function delivery(index, more = {}) {
  return {
    id: `dlv_${String(index).padStart(52, '0')}`,
    event_id: `event-${index}`,
    type: 'order.created',
    subscription_id: `sub_${'0'.repeat(26)}`,
    url_id: url(1).id,
    url: url(1).url,
    state: 'waiting',
    reason: null,
    epoch: 0,
    accepted_at: '2026-01-02T11:58:00.000Z',
    due_at: '2026-01-02T12:00:30.000Z',
    expires_at: '2026-01-04T15:58:00.000Z',
    attempts: [
      {
        n: 0,
        epoch: 0,
        at: '2026-01-02T11:58:00.000Z',
        outcome: 'failure',
        status: 500,
        error: 'status: the receiver answered 500',
        ms: 4,
        excerpt: 'no',
      },
    ],
    ...more,
  };
}

export const overview = (more = {}) => ({
  at: NOW,
  totals: { events: 0, attempts: { success: 0, failure: 0, interrupted: 0 } },
  latency_ms: null,
  waiting: { count: 0, more: false },
  parked: { count: 0, more: false },
  dead: { count: 0, more: false },
  urls: { enabled: 0, disabled: 0, frozen: 0, more: false },
  tenants: { count: 1, more: false },
  minutes: [],
  ...more,
});

/** Answers calls of the API from a table of patterns; the first that matches the path answers. Others go to the server. */
export async function answer(page, table) {
  await page.route(/\/(v1\/|openapi\.json)/, async (route) => {
    const asked = new URL(route.request().url());
    for (const [pattern, reply] of table) {
      if (pattern.test(asked.pathname)) {
        await route.fulfill(json(...[await reply(asked.searchParams, route)].flat()));
        return;
      }
    }
    await route.fallback();
  });
}
