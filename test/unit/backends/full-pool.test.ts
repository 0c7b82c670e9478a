import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CsiError, StatusCode, SystemError } from '../../../src/base/errors.js';
import { namingFullPool } from '../../../src/driver/backends/full-pool.js';
import { newVolume } from '../../backend/harness.js';
import { MemoryBackend, MemoryStorage } from '../../backend/memory-backend.js';
import { refused } from '../../support/refusal.js';

const RAW = '/proc/self/fd/7/snap-1.tmp';

function failing(code: string): { memory: MemoryBackend; pool: ReturnType<typeof namingFullPool> } {
  const memory = new MemoryBackend(new MemoryStorage(), { pool: 'main', totalBytes: 1n << 30n });
  const fail = (): Promise<never> =>
    Promise.reject(new SystemError(code, 'ioctl', RAW, `ioctl ${RAW}: No space left on device`));
  memory.snapshots.create = fail;
  memory.volumes.create = fail;
  memory.volumes.thaw = fail;
  memory.attachments.attach = fail;
  return { memory, pool: namingFullPool(memory) };
}

test('a pool without space is named with its free bytes, and what was being done', async () => {
  for (const code of ['ENOSPC', 'EDQUOT']) {
    const { pool } = failing(code);
    for (const [work, what] of [
      [() => pool.snapshots.create([]), 'the snapshot'],
      [() => pool.volumes.create(newVolume(), 1n), 'the volume'],
      [() => pool.volumes.thaw(newVolume()), 'the operation'],
      [() => pool.attachments.attach(newVolume(), { readOnly: false }), 'the operation'],
    ] as const) {
      const expected = new RegExp(
        `^pool 'main' has no space for ${what}: \\d+ of its 1073741824 bytes are free; delete`,
      );
      await refused(work(), 'RESOURCE_EXHAUSTED', expected);
      const thrown = await work().catch((error: unknown) => error);
      assert.ok(thrown instanceof CsiError && thrown.cause instanceof SystemError, 'for the log');
      assert.ok(!thrown.message.includes(RAW));
    }
  }
});

test('a pool whose space cannot be read is named all the same', async () => {
  const { memory, pool } = failing('ENOSPC');
  memory.capacity = () => Promise.reject(new Error('dead'));
  await refused(pool.snapshots.create([]), 'RESOURCE_EXHAUSTED', /'main'.*cannot be read/);
});

test('a failure for another reason, an answer and a field stay as they are', async () => {
  const { memory, pool } = failing('EIO');
  const failure = await pool.snapshots.create([]).catch((error: unknown) => error);
  assert.ok(failure instanceof SystemError && failure.code === 'EIO');
  const known = CsiError.resourceExhausted('the host is full');
  memory.volumes.create = () => Promise.reject(known);
  assert.equal(await pool.volumes.create(newVolume(), 1n).catch((error: unknown) => error), known);
  assert.equal(known.code, StatusCode.RESOURCE_EXHAUSTED);
  assert.equal(pool.pool, 'main');
  assert.deepEqual(await pool.capacity(), await memory.capacity());
});
