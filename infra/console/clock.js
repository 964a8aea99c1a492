// The server's clock. All times in the API are on it, and `holdfast dev --speed` runs it faster than real time: countdowns need its rate.

/** Two observations closer than this say little about the rate. */
const MIN_SPAN_MS = 400;
/** An older observation is forgotten, so that the rate follows a restart with another speed. */
const MAX_SPAN_MS = 120_000;
/** Differences from real time below this are network delay. */
const REAL_TIME_TOLERANCE = 0.2;

export function createClock(localNow = () => Date.now()) {
  let first = null;
  let last = { server: localNow(), local: localNow() };
  let rate = 1;
  return {
    /** The server said that it is `at` (RFC 3339), when the time here was `local`. */
    observe(at, local = localNow()) {
      const seen = { server: Date.parse(at), local };
      if (Number.isNaN(seen.server)) return;
      const stale = !first || seen.local - first.local > MAX_SPAN_MS || seen.server < last.server;
      if (stale) first = first && seen.server >= last.server ? last : seen;
      last = seen;
      const span = seen.local - first.local;
      if (span >= MIN_SPAN_MS) {
        const measured = (seen.server - first.server) / span;
        rate = Math.abs(measured - 1) < REAL_TIME_TOLERANCE ? 1 : measured;
      }
    },
    /** The server's time now, in milliseconds. */
    now() {
      return last.server + (localNow() - last.local) * rate;
    },
    get rate() {
      return rate;
    },
  };
}

export const clock = createClock();

/** Sends a request whose answer has the server's time, which was read about halfway between question and answer. */
export async function timed(ask) {
  const sent = Date.now();
  const answer = await ask();
  clock.observe(answer.at, (sent + Date.now()) / 2);
  return answer;
}
