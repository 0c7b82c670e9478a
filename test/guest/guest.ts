/** Tests that only make sense in the guest that scripts/test-guest starts; elsewhere they are skipped. */
import { type TestContext, test } from 'node:test';

export const guestSkip: string | false =
  process.env['BLOCKDELTA_GUEST'] === '1' ? false : 'runs in a guest only: scripts/test-guest';

export const isGuest = guestSkip === false;

export function guestTest(
  title: string,
  run: (context: TestContext) => Promise<void> | void,
): void {
  void test(title, { skip: guestSkip }, run);
}
