// The retry schedule of Holdfast. Pure, and the same numbers as `shared/core/src/rules/schedule.rs`.

/** The wait before retry 1; every further wait is twice as long. */
export const FIRST_GAP_MS = 84_800;
export const LAST_RETRY = 11;
/** Nothing is attempted later than this after the first attempt. */
export const EXPIRY_MS = 52 * 3_600_000;

/** When retry `n` is due after the first attempt, if every attempt was made on time. */
export function retryOffset(n) {
  return (2 ** n - 1) * FIRST_GAP_MS;
}

/** The wait between attempt `n - 1` and attempt `n`. */
export function gapBefore(n) {
  return 2 ** (n - 1) * FIRST_GAP_MS;
}

/**
 * The place of a time on the logarithmic axis. `log2(1 + t / 84.8 s)` puts retry `n` exactly at `n`, so that the twelve attempts, from seconds
 * to two days, are equally far apart.
 */
export function axisPosition(ms) {
  return Math.log2(1 + Math.max(0, ms) / FIRST_GAP_MS);
}

export const AXIS_END = axisPosition(EXPIRY_MS);

/** The attempts that are still to come: `n` is due at `dueAt`, and each later one a gap after the one before. */
export function upcoming(n, dueAt, expiresAt) {
  const attempts = [];
  for (let next = n, at = dueAt; next <= LAST_RETRY && at <= expiresAt; next += 1) {
    attempts.push({ n: next, at });
    at += gapBefore(next + 1);
  }
  return attempts;
}
