/** A pool whose disk does not answer, for work that opens the directories itself. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PoolDirectory } from '../../../../src/driver/backends/reflink/pool-directory.js';
import type { NativeRunner } from '../../../../src/driver/native/pool.js';

/** More than the time limit of a pool's directories. */
const LONG_MS = 6000;

test('a disk that does not answer holds two threads, whoever asks for it, and each caller is told', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const asked: string[] = [];
  const run = (method: string) => {
    asked.push(method);
    return new Promise<never>(() => undefined);
  };
  const native = { run } as NativeRunner;
  const options = { pool: 'default', directory: '/pool', embeddedPoolBytes: null, owner: '' };
  const directory = new PoolDirectory(native, options);
  const atOnce = directory.useAtOnce(() => run('at once'));
  assert.equal(await directory.useAtOnce(() => run('at once again')), null);
  const calls = [atOnce, directory.check(), directory.check()];
  const told = calls.map((each) => assert.rejects(each, /'default' in \/pool does not answer/));
  t.mock.timers.tick(LONG_MS);
  await Promise.all(told);
  assert.deepEqual(asked, ['at once', 'openDirectories']);
});
