/**
 * Whether a tool that outlives its plugin (exec.ts) works on a device.
 *
 * Such a tool holds an exclusive flock on the device node, which is what udev respects as well; udev's
 * own lock is a shared one and does not count. Knows no volumes.
 */
import { LOCKED_EXIT_CODE, run } from './exec.js';

export async function isToolAtWork(devicePath: string): Promise<boolean> {
  const { exitCode } = await run(
    'flock',
    ['--no-fork', '-s', '-n', '-E', String(LOCKED_EXIT_CODE), devicePath, 'true'],
    { accept: [0, LOCKED_EXIT_CODE] },
  );
  return exitCode === LOCKED_EXIT_CODE;
}
