import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { CsiError } from '../../../src/base/errors.js';
import { BackendRegistry } from '../../../src/driver/backends/registry.js';
import { PoolRecovery, type PoolRecoveryDependencies } from '../../../src/driver/plugin/pool-recovery.js';
import { MemoryBackend, MemoryStorage } from '../../backend/memory-backend.js';
import { eventually } from '../../support/eventually.js';

const away = CsiError.failedPrecondition("pool 'far' could not be started: its disk is away");

interface Rig {
  registry: BackendRegistry;
  near: MemoryBackend;
  far: MemoryBackend;
  recovery: PoolRecovery;
  lines: string[];
}

const rigs: Rig[] = [];
afterEach(async () => {
  for (const { recovery } of rigs.splice(0)) await recovery.stop();
});

function rig(deps: Partial<PoolRecoveryDependencies> = {}): Rig {
  const near = new MemoryBackend(new MemoryStorage(), { pool: 'near' });
  const far = new MemoryBackend(new MemoryStorage(), { pool: 'far' });
  const registry = new BackendRegistry([near, { pool: 'far', failure: away }]);
  const lines: string[] = [];
  const log = (level: string) => (fields: object, message: string) => {
    lines.push(`${level} ${(fields as { pool: string }).pool}: ${message}`);
  };
  const logger = { info: log('info'), warn: log('warn'), debug: () => undefined } as never;
  const recovery = new PoolRecovery({
    registry,
    logger,
    startAgain: async () => far,
    prepare: async () => undefined,
    times: { firstRetryMs: 1, longestRetryMs: 4, checkMs: 1, stopMs: 200 },
    ...deps,
  });
  const made = { registry, near, far, recovery, lines };
  rigs.push(made);
  return made;
}

test('a pool that can be started again is prepared, then served; that alone is logged', async () => {
  const happened: string[] = [];
  const failures: string[] = [];
  const made: Rig = rig({
    startAgain: async () => {
      happened.push('started');
      failures.push(made.registry.unavailable[0]?.failure.message ?? '');
      if (happened.length < 3) throw CsiError.failedPrecondition(`still away ${happened.length}`);
      return made.far;
    },
    prepare: async () => {
      happened.push('prepared');
      assert.equal(made.registry.unavailable.length, 1, 'no call reaches it before');
      if (happened.length < 5) throw new Error('cannot list');
    },
  });
  made.far.stop = async () => void happened.push('stopped');
  assert.throws(() => made.registry.owning('far'), /its disk is away/);
  made.recovery.start();
  await eventually('the pool is served', () => made.registry.unavailable.length === 0);
  const again = ['started', 'prepared', 'stopped', 'started', 'prepared'];
  assert.deepEqual(happened, ['started', 'started', ...again]);
  // Calls fail with the last attempt.
  assert.deepEqual(failures.slice(0, 3), [away.message, 'still away 1', 'still away 2']);
  assert.deepEqual([made.registry.owning('far'), made.registry.owning('near')], [made.far, made.near]);
  assert.deepEqual(
    made.lines.filter((line) => line.startsWith('info far')),
    ['info far: the pool could be started and is served from now on'],
  );
});

test('a started pool that fails its check is recorded and logged once, and so is its return', async () => {
  const { registry, near, recovery, lines } = rig({ startAgain: () => Promise.reject(away) });
  let failure: CsiError | null = CsiError.failedPrecondition('does not answer');
  near.check = async () => {
    if (failure !== null) throw failure;
  };
  for (let round = 0; round < 3; round += 1) await recovery.check();
  assert.deepEqual(
    registry.states.map((state) => [state.pool, state.backend, state.failure?.message ?? null]),
    [
      ['near', near, 'does not answer'],
      ['far', null, away.message],
    ],
  );
  failure = null;
  for (let round = 0; round < 3; round += 1) await recovery.check();
  assert.equal(registry.states[0]?.failure, null);
  assert.deepEqual(lines, [
    'warn near: the pool has stopped working; calls for it fail',
    'info near: the pool works again',
  ]);
});

test('a plugin that is too busy to check a pool says nothing of the pool', async () => {
  const { registry, near, recovery, lines } = rig();
  near.check = () => Promise.reject(CsiError.aborted('busy with 4 calls'));
  await recovery.check();
  assert.equal(registry.states.find(({ pool }) => pool === 'near')?.failure, null);
  near.check = () => Promise.reject(CsiError.failedPrecondition('no disk'));
  await recovery.check();
  near.check = () => Promise.reject(CsiError.aborted('busy with 4 calls'));
  await recovery.check();
  assert.equal(registry.states.find(({ pool }) => pool === 'near')?.failure?.message, 'no disk');
  assert.equal(lines.length, 1);
});

test('stopping ends the attempts, and does not wait for one that a dead disk holds', async () => {
  let attempts = 0;
  const stuck = rig({
    startAgain: () => {
      attempts += 1;
      return new Promise(() => undefined);
    },
  });
  stuck.recovery.start();
  await eventually('an attempt', () => attempts === 1);
  await stuck.recovery.stop();
  const failing = rig({
    startAgain: async () => {
      attempts += 1;
      throw away;
    },
  });
  failing.recovery.start();
  await eventually('more attempts', () => attempts > 3);
  await failing.recovery.stop();
  const before = attempts;
  await new Promise((resolve) => setTimeout(resolve, 50));
  assert.equal(attempts, before);
});
