/** Tests that only make sense in the guest that scripts/test-guest starts; elsewhere they are skipped. */
import { type TestContext, test } from 'node:test';

export const guestSkip: string | false =
  process.env['BLOCKDELTA_GUEST'] === '1' ? false : 'runs in a guest only: scripts/test-guest';

/** Far above what any of them takes: a hang costs one test, not the run. */
const TIMEOUT_MS = 1000 * Number(process.env['BLOCKDELTA_GUEST_TEST_SECONDS'] ?? 150);

export const isGuest = guestSkip === false;

/** `patience`: how many times as long as others it may take. */
export function guestTest(
  title: string,
  run: (context: TestContext) => Promise<void>,
  { patience = 1 } = {},
): void {
  void test(title, { skip: guestSkip, timeout: patience * TIMEOUT_MS }, run);
}
