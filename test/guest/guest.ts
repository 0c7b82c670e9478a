/** Tests that only make sense in the guest that scripts/test-guest starts; elsewhere they are skipped. */
import { test as plainTest, type TestContext } from 'node:test';
import { atNight } from '../support/nightly.js';

export const guestSkip: string | false =
  process.env['BLOCKDELTA_GUEST'] === '1' ? false : 'runs in a guest only: scripts/test-guest';

export const isGuest = guestSkip === false;

export function test(title: string, run: (context: TestContext) => Promise<void> | void): void {
  void plainTest(title, { skip: guestSkip }, run);
}

export const nightlyTest = atNight(test);

/** A test with something of its own, which is disposed of at the end, whatever comes of the test. */
export function testWith<T extends { dispose(): Promise<void> | void }>(
  title: string,
  make: () => T | Promise<T>,
  run: (made: T) => Promise<void>,
): void {
  test(title, async (context) => {
    const made = await make();
    context.after(() => made.dispose());
    await run(made);
  });
}
