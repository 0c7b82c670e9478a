/** The threads of the addon: closed while they are at work. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { NativePool } from '../../../src/driver/native/pool.js';
import { rejectsWith } from '../../support/expect-status.js';

const POOL = new URL('../../../src/driver/native/pool.js', import.meta.url).href;

/** Closes a pool of two threads under a task that is over at once and one that takes a while. */
const PROGRAM = `
  const { NativePool } = await import(${JSON.stringify(POOL)});
  const pool = new NativePool(2);
  await pool.warm();
  const source = { kind: 'pattern', sizeBytes: 1n << 50n, extentBytes: 4096n, strideBytes: 8192n };
  const fill = (maxEntries, bytes) => pool.fill({
    source, offset: 0n, rangeStart: 0n, maxEntries, maxEntriesPerMessage: 8192,
    maxExtents: 2 ** 31 - 1, sendEmpty: true,
  }, new ArrayBuffer(bytes)).then(({ result }) => console.log(result.entries));
  const tasks = [fill(10, 1 << 20), fill(10_000_000, 400 << 20)];
  await pool.close();
  await Promise.all(tasks);
  console.log('closed');
`;

test('a pool that is closed under several tasks waits for all of them', () => {
  const { status, signal, stdout, stderr } = spawnSync(
    process.execPath,
    ['--input-type=module', '--eval', PROGRAM],
    { encoding: 'utf8' },
  );
  assert.deepEqual({ status, signal, stderr }, { status: 0, signal: null, stderr: '' });
  assert.equal(stdout, '10\n10000000\nclosed\n');
});

test('a pool that is being closed takes nothing new', async () => {
  const pool = new NativePool(1);
  await pool.warm();
  const closed = pool.close();
  await rejectsWith(pool.run('dmVersion', {}), 'UNAVAILABLE', /stopping/);
  await closed;
});
