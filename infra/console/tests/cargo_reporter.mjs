// Reports like cargo test, so that .ci/run can add up the totals.

export default async function* cargoReporter(events) {
  let passed = 0;
  let failed = 0;
  const failures = [];
  for await (const { type, data } of events) {
    // Files are tests too, with those in them nested.
    const isFile = data?.name?.endsWith('.test.mjs');
    if (type === 'test:pass' && !isFile) {
      passed += 1;
      yield `test ${data.name} ... ok (${Math.round(data.details.duration_ms)} ms)\n`;
    } else if (type === 'test:fail' && (!isFile || data.details.error.failureType !== 'subtestsFailed')) {
      failed += 1;
      failures.push(`---- ${data.name}\n${text(data.details.error)}\n`);
      yield `test ${data.name} ... FAILED\n`;
    } else if (type === 'test:stderr') {
      yield data.message;
    }
  }
  for (const failure of failures) yield `\n${failure}`;
  yield `\ntest result: ${failed ? 'FAILED' : 'ok'}. ${passed} passed; ${failed} failed; 0 ignored\n`;
}

function text(error) {
  const cause = error.cause ?? error;
  return cause.stack ?? cause.message ?? String(cause);
}
