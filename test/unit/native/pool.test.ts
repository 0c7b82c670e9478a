/** The threads of the addon: how they start and end, also where none can be started, or while they are at work. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { rmdirSync } from 'node:fs';
import { test } from 'node:test';
import { NativePool } from '../../../src/driver/native/pool.js';
import { eventually } from '../../support/eventually.js';
import { isNightly } from '../../support/nightly.js';
import { inCgroup, makePidsCgroup } from '../../support/pids-cgroup.js';
import { refused } from '../../support/refusal.js';

const POOL = new URL('../../../src/driver/native/pool.js', import.meta.url).href;

/** Closes a pool of two threads under a task that is over at once and one that takes a while. */
const PROGRAM = `
  const { NativePool } = await import(${JSON.stringify(POOL)});
  const pool = new NativePool(2, { kept: 2 });
  await pool.warm();
  const target = new BigUint64Array(4 * 1_000_000);
  for (let index = 0; index < target.length; index += 4) target.set([BigInt(index) * 2048n, 0n, 4096n, 0n], index);
  const source = { kind: 'extents', sizeBytes: 1n << 50n, target, base: null };
  const fill = (maxEntries, bytes) => pool.fill({
    source, offset: 0n, rangeStart: 0n, maxEntries, maxEntriesPerMessage: 8192,
    maxExtents: 2 ** 31 - 1, sendEmpty: true,
  }, new ArrayBuffer(bytes)).then(({ result }) => console.log(result.entries));
  const tasks = [fill(10, 1 << 20), fill(1_000_000, 40 << 20)];
  await pool.close();
  await Promise.all(tasks);
  console.log('closed');
`;

test('a pool that is closed under several tasks waits for all of them', () => {
  const { status, signal, stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '--eval', PROGRAM], {
    encoding: 'utf8',
  });
  assert.deepEqual({ status, signal, stderr }, { status: 0, signal: null, stderr: '' });
  const ended = stdout.trim().split('\n');
  // The two tasks have a thread each, so either may end first.
  assert.deepEqual([ended.slice(0, -1).sort(), ended.at(-1)], [['10', '1000000'], 'closed']);
});

test('a pool that is being closed takes nothing new', async () => {
  const pool = new NativePool(1);
  await pool.warm();
  const closed = pool.close();
  await refused(pool.run('dmVersion', {}), 'UNAVAILABLE', /stopping/);
  await closed;
});

const look = (pool: NativePool): Promise<unknown> => pool.run('fileState', { path: '/' });

test('threads start when they are needed, and all but those that are kept end when they are idle', async () => {
  const pool = new NativePool(3, { kept: 1, idleMs: 1 });
  assert.equal(pool.started, 0);
  await pool.warm();
  assert.equal(pool.started, 1);
  await Promise.all([1, 2, 3, 4, 5].map(() => look(pool)));
  await eventually('the idle threads end', () => pool.started === 1);
  await look(pool);
  await pool.close();
});

const ROUNDS = isNightly ? 1000 : 20;
const MIB = 1 << 20;

test(`memory is flat over ${ROUNDS} starts and ends of a thread`, async (t) => {
  const round = async (): Promise<void> => {
    const pool = new NativePool(1);
    await look(pool);
    await pool.close();
  };
  for (let count = 0; count < 10; count += 1) await round();
  const before = process.memoryUsage.rss();
  for (let count = 0; count < ROUNDS; count += 1) await round();
  const grown = (process.memoryUsage.rss() - before) / MIB;
  t.diagnostic(`${grown.toFixed(1)} MiB more`);
  // A thread that is not given back takes 4 MiB.
  assert.ok(grown < 10 + ROUNDS / 10, `${grown} MiB more after ${ROUNDS} threads`);
});

/** Prints the KiB that glibc's arenas hold while the threads run, and after they have ended. */
const ENDING = `
  import { readFileSync } from 'node:fs';
  const { NativePool } = await import(${JSON.stringify(POOL)});
  const MAPPING = /^([0-9a-f]+)-\\S+ rw-p \\S+ 00:00 0 *\\n(?:.*\\n)*?Rss: +(\\d+) kB/gm;
  const isArena = (address) => BigInt('0x' + address) % (64n << 20n) === 0n;
  const held = () => [...readFileSync('/proc/self/smaps', 'latin1').matchAll(MAPPING)].reduce(
    (sum, [, address, kib]) => sum + (isArena(address) ? Number(kib) : 0), 0);
  const before = held();
  const pool = new NativePool(6);
  await Promise.all(Array.from({ length: 600 }, () => pool.run('fileState', { path: '/' })));
  const running = held() - before;
  await pool.close();
  console.log(running, held() - before);
`;

test('threads that end give back what they had allocated', (t) => {
  const node = ['--input-type=module', '--eval', ENDING];
  // A count of coverage holds memory of its own.
  const env = { ...process.env, NODE_V8_COVERAGE: '' };
  const { stdout, stderr } = spawnSync(process.execPath, node, { encoding: 'utf8', env });
  assert.equal(stderr, '');
  const [running = 0, ended = 0] = stdout.split(' ').map(Number);
  t.diagnostic(`${running} KiB in arenas while six threads ran, ${ended} KiB afterwards`);
  assert.ok(running > 2048, `no arenas were found: ${stdout}`);
  assert.ok(ended < 0.5 * running, `${ended} of ${running} KiB are still held`);
});

/** The limit leaves room for no thread beside the one that is kept. */
const LIMITED = `
  import { readFileSync, writeFileSync } from 'node:fs';
  const { NativePool } = await import(${JSON.stringify(POOL)});
  const devices = new NativePool(4, { kept: 1 });
  await devices.warm();
  const mounts = new NativePool(8, { fallback: devices });
  const alone = new NativePool(1);
  const tasks = /^Threads:\\s+(\\d+)$/m.exec(readFileSync('/proc/self/status', 'utf8'))[1];
  const look = (pool) => pool.run('fileState', { path: '/' });
  writeFileSync(process.argv[1] + '/pids.max', tasks);
  await Promise.all([1, 2, 3].flatMap(() => [look(devices), look(mounts)]));
  await look(alone).catch(({ code, message }) => console.log(code, message));
  writeFileSync(process.argv[1] + '/pids.max', 'max');
  await Promise.all([look(devices), look(mounts), look(alone)]);
  console.log(mounts.started, alone.started);
  for (const pool of [alone, mounts, devices]) await pool.close();
`;

test('tasks go on with the threads that run where none can be started, and other tasks say what to do', (t) => {
  const cgroup = makePidsCgroup(`blockdelta-test-${process.pid}`);
  if (cgroup === null) return t.skip('no cgroup with the controller pids can be made here');
  try {
    const node = [process.execPath, '--input-type=module', '--eval', LIMITED, cgroup];
    const [program = '', ...args] = inCgroup(cgroup, node);
    const { status, stdout, stderr } = spawnSync(program, args, { encoding: 'utf8' });
    assert.deepEqual({ status, stderr }, { status: 0, stderr: '' });
    assert.match(stdout, /^14 no thread can be started.*raise the limit of processes.*\n1 1\n$/);
  } finally {
    rmdirSync(cgroup);
  }
});
