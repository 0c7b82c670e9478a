import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { BackendRegistry } from '../../../src/backends/registry.js';
import { CsiError } from '../../../src/base/errors.js';
import { PoolRecovery, type PoolRecoveryDependencies } from '../../../src/plugin/pool-recovery.js';
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
    ...{ registry, logger, startAgain: async () => far, prepare: async () => undefined },
    times: { firstRetryMs: 1, longestRetryMs: 4, checkMs: 1, stopMs: 200 },
    ...deps,
  });
  const made = { registry, near, far, recovery, lines };
  rigs.push(made);
  return made;
}

test('a pool that can be started again is prepared, then served, and that is logged once', async () => {
  let attempts = 0;
  let servedInPrepare: unknown = null;
  const made: Rig = rig({
    startAgain: async () => {
      attempts += 1;
      if (attempts < 4) throw CsiError.failedPrecondition(`still away ${attempts}`);
      return made.far;
    },
    prepare: async () => {
      servedInPrepare = made.registry.unavailable.map(({ pool }) => pool);
    },
  });
  assert.throws(() => made.registry.owning('far'), /its disk is away/);
  made.recovery.start();
  await eventually('the pool is served', () => made.registry.unavailable.length === 0);
  assert.equal(made.registry.owning('far'), made.far);
  assert.deepEqual(servedInPrepare, ['far'], 'no call reaches a pool that is not prepared');
  assert.deepEqual(
    made.lines.filter((line) => line.includes('far')),
    ['info far: the pool could be started and is served from now on'],
  );
  assert.equal(attempts, 4);
});

test('the registry has the failure of the last attempt, and calls fail with it', async () => {
  let attempts = 0;
  const made = rig({
    startAgain: async () => {
      attempts += 1;
      throw CsiError.failedPrecondition(`attempt ${attempts}`);
    },
  });
  made.recovery.start();
  await eventually('three attempts', () => attempts >= 3);
  assert.match(made.registry.unavailable[0]?.failure.message ?? '', /^attempt \d+$/);
  assert.throws(() => made.registry.owning('far'), /^CsiError: attempt/);
  assert.equal(made.registry.owning('near'), made.near);
});

test('a pool whose preparation fails is stopped, not served, and tried again', async () => {
  let stops = 0;
  let prepared = 0;
  const made: Rig = rig({
    prepare: async () => {
      prepared += 1;
      if (prepared === 1) throw new Error('cannot list');
    },
  });
  made.far.stop = async () => {
    stops += 1;
  };
  made.recovery.start();
  await eventually('the pool is served', () => made.registry.unavailable.length === 0);
  assert.deepEqual([prepared, stops], [2, 1]);
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
    'warn near: the pool does not work any more; calls for it fail',
    'info near: the pool works again',
  ]);
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
