/** The end of a thin pool whose devices do not answer in time, and answer later. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { OpenPool } from '../../../../src/driver/backends/thin/open-pool.js';
import { PoolNames } from '../../../../src/driver/backends/thin/pool/pool-names.js';
import { ThinPool } from '../../../../src/driver/backends/thin/pool/thin-pool.js';
import type { NativeRunner } from '../../../../src/driver/native/pool.js';
import { FakeThinKernel } from '../../../support/fake-thin-kernel.js';

/** Closes a pool that answers this call at once, or when nobody waits any more. Resolves to what has happened. */
async function closed(method: string, isLate: boolean): Promise<string[]> {
  const kernel = new FakeThinKernel();
  const names = new PoolNames('uuid');
  kernel.addActive(names.pool, names.poolUuid, 'thin-pool', '0 0');
  const happened: string[] = [];
  let answer = (): void => undefined;
  const answered = new Promise<void>((resolve) => {
    answer = resolve;
  });
  const run: NativeRunner['run'] = async (asked, request) => {
    if (asked === method) await answered;
    happened.push(asked);
    return kernel.run(asked, request);
  };
  const pool = new ThinPool({ run }, 'p', names);
  const deps = {
    native: { run },
    pool: 'p',
    directory: '/nowhere',
    guardianSocket: null,
    features: {},
    ...(isLate ? { closeTimeoutMs: 1 } : {}),
    ledger: { recordStop: async () => happened.push('recordStop'), close: async () => happened.push('closed') },
    devices: { release: async () => happened.push('released') },
    onEvent: ({ message }: { message: string }) => happened.push(message.slice(9, 24)),
  };
  const prepared = { opened: { metadataPath: '/dev/null' }, dataBlockBytes: 65536n };
  const open = Reflect.construct(OpenPool, [deps, pool, prepared]) as OpenPool;
  const ended = open.close();
  if (isLate) await ended;
  answer();
  for (let step = 0; step < 10; step += 1) await turn();
  await ended;
  return happened;
}

const ALL = ['dmList', 'dmFind', 'dmRemove', 'thinSuperblock', 'recordStop', 'released', 'closed'];

test('a pool that answers in time is deactivated, and its devices are released', async () => {
  assert.deepEqual(await closed('dmList', false), ALL);
});

test('a pool that answers too late is left as it is, whatever it was asked', async () => {
  for (const method of ['dmList', 'dmFind']) {
    const happened = await closed(method, true);
    const isReport = (what: string): boolean => what === 'does not answer';
    assert.equal(happened.filter(isReport).length, 1);
    const calls = happened.filter((what) => !isReport(what));
    assert.deepEqual(calls, ['dmList', 'dmFind', 'closed']);
  }
});
