/** Tests that only make sense in the guest that scripts/test-guest starts; elsewhere they are skipped. */
import { type TestContext, test } from 'node:test';
import { isNightly } from '../support/nightly.js';

export const guestSkip: string | false =
  process.env['BLOCKDELTA_GUEST'] === '1' ? false : 'runs in a guest only: scripts/test-guest';

export const isGuest = guestSkip === false;

/** Far above what any of them takes: a hang costs one test, not the run. */
const TIMEOUT_MS = isNightly ? 1_200_000 : 400_000;

/** `timeoutFactor`: the factor by which its timeout is longer than that of other tests. */
export function guestTest(
  title: string,
  run: (context: TestContext) => Promise<void>,
  { timeoutFactor = 1 } = {},
): void {
  void test(title, { skip: guestSkip, timeout: timeoutFactor * TIMEOUT_MS }, run);
}
