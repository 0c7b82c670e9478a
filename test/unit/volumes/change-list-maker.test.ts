import assert from 'node:assert/strict';
import { syncBuiltinESMExports } from 'node:module';
import { test } from 'node:test';
import { pino } from 'pino';
import { CsiError, SystemError } from '../../../src/base/errors.js';
import { ChangeListMaker } from '../../../src/driver/volumes/change-list-maker.js';
import { OperationLocks, snapshotKey } from '../../../src/driver/volumes/operation-locks.js';

type Step = [target: string, base: string | null, number: number];

/** A volume with snapshots s1, s2, s3; the pool needs two steps for each list. */
function world(
  fails: (target: string) => boolean = () => false,
  onStep: (number: number) => Promise<void> = async () => undefined,
) {
  const ids = ['s1', 's2', 's3'];
  const record = (id: string | undefined) =>
    id === undefined
      ? null
      : {
          snapshotId: id,
          volumeId: 'v',
          pool: 'p',
          state: 'ready',
          sequence: BigInt(ids.indexOf(id) * 10),
        };
  const steps: Step[] = [];
  const abandoned: string[] = [];
  /** Snapshots before which pending bases were completed. */
  const completed: string[] = [];
  /** Deleted snapshots of the volume that the pool still holds, by their sequence. */
  const pending = new Map<string, bigint>();
  const catalogue = {
    snapshotById: async (id: string) => record(ids.find((each) => each === id)),
    retainedBasesOf: async () =>
      [...pending].map(([snapshotId, sequence]) => ({ snapshotId, volumeId: 'v', sequence, invalidated: null })),
    snapshotBefore: async (_volume: string, sequence: bigint) => record(ids[Number(sequence) / 10 - 1]),
  };
  const changes = {
    begin: async (target: string, base: string | null) => {
      let made = 0;
      return {
        step: async () => {
          made += 1;
          steps.push([target, base, made]);
          await onStep(made);
          if (fails(target)) throw CsiError.internal('broken');
          return made === 2;
        },
        abandon: async () => void abandoned.push(`${base} ${target}`),
      };
    },
  };
  const locks = new OperationLocks();
  const registry = { owning: () => ({ bases: { held: pending }, changes }) };
  const problems: string[] = [];
  const deps = {
    catalogue,
    registry,
    locks,
    logger: pino({ level: 'silent' }),
    retainedBases: {
      completePending: async (_backend: unknown, { snapshotId }: { snapshotId: string }) =>
        void completed.push(snapshotId),
    },
    observe: (kind: string, problem: string) => problems.push(`${kind} ${problem}`),
  };
  const maker = new ChangeListMaker(deps as never);
  return { maker, locks, ids, steps, abandoned, problems, completed, pending };
}

test('a list is made from the snapshot before, step by step', async () => {
  const { maker, steps } = world();
  maker.schedule('s2');
  await maker.idle();
  assert.deepEqual(steps, [
    ['s2', 's1', 1],
    ['s2', 's1', 2],
  ]);
});

test('a list begins at a deleted snapshot that the pool still holds, which is completed after it', async () => {
  const { maker, steps, completed, pending } = world();
  pending.set('between', 15n);
  maker.schedule('s2');
  maker.schedule('s3');
  await maker.idle();
  assert.deepEqual([...new Set(steps.map(([target, base]) => `${base} ${target}`))], ['s1 s2', 'between s3']);
  assert.deepEqual(completed, ['s2', 's3']);
});

test('what a snapshot holds is listed without another snapshot, also of the first one', async () => {
  const { maker, steps } = world();
  maker.schedule('s1', 'allocated');
  maker.schedule('s1', 'delta');
  maker.schedule('gone', 'allocated');
  await maker.idle();
  assert.deepEqual(steps, [
    ['s1', null, 1],
    ['s1', null, 2],
  ]);
});

test('a snapshot that is being deleted is left alone, and the next one gets its list', async () => {
  const { maker, locks, steps } = world();
  const release = locks.acquire([snapshotKey('s1')]);
  maker.schedule('s2');
  maker.schedule('s3');
  await maker.idle();
  release();
  assert.deepEqual(
    steps.map(([target]) => target),
    ['s3', 's3'],
  );
});

test('a step that has waited for an hour is followed by a short pause', async (t) => {
  let now = 0;
  t.mock.method(performance, 'now', () => now);
  t.mock.timers.enable({ apis: ['setTimeout'] });
  // Timers of promises are imported by name.
  syncBuiltinESMExports();
  t.after(() => {
    t.mock.timers.reset();
    syncBuiltinESMExports();
  });
  const { maker, steps } = world(undefined, async () => {
    now += 3_600_000;
  });
  maker.schedule('s2');
  for (let second = 0; second < 5; second += 1) {
    await new Promise((resolve) => setImmediate(resolve));
    t.mock.timers.tick(1000);
  }
  await maker.stop();
  assert.equal(steps.length, 2);
});

test('a list is given up when one of its snapshots is deleted meanwhile, and at a stop', async () => {
  for (const [gone, after] of [
    ['s3', []],
    [
      's2',
      [
        ['s3', 's1', 1],
        ['s3', 's1', 2],
      ],
    ],
  ] as const) {
    const made: ReturnType<typeof world> = world(undefined, async (number) => {
      if (number === 1 && made.steps.length === 1) made.ids.splice(made.ids.indexOf(gone), 1);
    });
    made.maker.schedule('s3');
    await made.maker.idle();
    assert.deepEqual(made.steps, [['s3', 's2', 1], ...after]);
    assert.deepEqual(made.abandoned, ['s2 s3']);
  }
  const stopped: ReturnType<typeof world> = world(undefined, async () => {
    void stopped.maker.stop();
  });
  stopped.maker.schedule('s2');
  await stopped.maker.idle();
  assert.deepEqual(stopped.abandoned, ['s1 s2']);
});

test('a failure ends only its own list', async () => {
  const { maker, steps, problems } = world((target) => target === 's2');
  maker.schedule('s2');
  maker.schedule('s3');
  await maker.idle();
  assert.deepEqual(
    steps.map(([target]) => target),
    ['s2', 's3', 's3'],
  );
  maker.schedule('s2');
  await maker.idle();
  assert.equal(steps.length, 4);
  assert.deepEqual(problems, ['delta not made', 'delta not made']);
});

test('a refused list is made again', async () => {
  const { maker, steps, problems } = world();
  const refusal = new SystemError('LIST_INVALID', 'scan', '/pool/lists/s3.delta', 'damaged');
  maker.refused({ snapshotId: 's3', pool: 'p' } as never, 'delta', refusal);
  await maker.idle();
  assert.deepEqual(problems, ['delta refused']);
  assert.equal(steps.length, 2);
});

test('no list is made after a stop', async () => {
  const { maker, steps } = world();
  maker.schedule('s2');
  await maker.stop();
  const made = steps.length;
  assert.ok(made <= 1, `${made} steps`);
  maker.schedule('s3');
  await maker.idle();
  assert.equal(steps.length, made);
});
