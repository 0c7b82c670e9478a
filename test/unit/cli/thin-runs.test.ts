/** The runs of a delta: merged, checked batch by batch, restarted or refused when trees change. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { StatusCode } from '../../../src/base/errors.js';
import { ThinTrees } from '../../../src/cli/thin/pool-metadata.js';
import { ChangedRanges, type Run, readRuns } from '../../../src/cli/thin/runs.js';
import { ThinDeltaKind } from '../../../src/native/thin-addon.js';
import { FakeThinPool, metadataFailure } from '../../support/fake-thin-metadata.js';

const { SAME, LEFT_ONLY, RIGHT_ONLY, DIFFERENT } = ThinDeltaKind;

function poolWith(...batches: FakeThinPool['batches']): FakeThinPool {
  const pool = new FakeThinPool();
  pool.addDevice(1, 11n);
  pool.addDevice(2, 12n);
  pool.batches = batches;
  return pool;
}

async function collect(
  pool: FakeThinPool,
  runs: Run[] = [],
  signal = new AbortController().signal,
): Promise<Run[]> {
  const trees = await ThinTrees.open(pool.runner, '/pool', false);
  const request = { base: 1, target: 2, includeSame: true };
  for await (const batch of readRuns(trees, request, signal)) runs.push(...batch.runs);
  return runs;
}

const run = (kind: Run['kind'], begin: bigint, length: bigint): Run => ({ kind, begin, length });

test('adjacent runs of one kind are merged across batches, others are not', async () => {
  const pool = poolWith(
    [
      [SAME, 0, 5],
      [DIFFERENT, 5, 2],
    ],
    [],
    [
      [DIFFERENT, 7, 1],
      [LEFT_ONLY, 8, 1],
    ],
    [[LEFT_ONLY, 10, 1]],
  );
  assert.deepEqual(await collect(pool), [
    run(SAME, 0n, 5n),
    run(DIFFERENT, 5n, 3n),
    run(LEFT_ONLY, 8n, 1n),
    run(LEFT_ONLY, 10n, 1n),
  ]);
});

test('a delta whose trees change before the first batch is returned starts again', async () => {
  const pool = poolWith([[SAME, 0, 5]], [[DIFFERENT, 5, 1]]);
  pool.meanwhile = (method, call) => {
    if (method === 'thinDelta' && call === 1) pool.write(2);
  };
  assert.deepEqual(await collect(pool), [run(SAME, 0n, 5n), run(DIFFERENT, 5n, 1n)]);
  assert.equal(pool.calls.thinDelta, 3);
});

test('writes to other devices do not disturb a delta', async () => {
  const pool = poolWith([[SAME, 0, 5]], [[DIFFERENT, 5, 1]]);
  pool.addDevice(3, 13n);
  pool.meanwhile = (method) => {
    if (method === 'thinDelta') pool.write(3);
  };
  assert.equal((await collect(pool)).length, 2);
  assert.equal(pool.calls.thinDelta, 2);
});

test('a delta whose trees change later fails without returning the batch in doubt', async () => {
  const pool = poolWith([[SAME, 0, 5]], [[DIFFERENT, 6, 1]], [[DIFFERENT, 9, 1]]);
  pool.meanwhile = (method, call) => {
    if (method === 'thinDelta' && call === 3) pool.write(1);
  };
  const runs: Run[] = [];
  await assert.rejects(collect(pool, runs), {
    code: StatusCode.FAILED_PRECONDITION,
    message: /thin device 1 or 2 in \/pool changed while it was read.*--metadata-snap/,
  });
  assert.deepEqual(runs, [run(SAME, 0n, 5n)]);
});

test('a delta of a device that is constantly written to is refused', async () => {
  const pool = poolWith([[SAME, 0, 5]]);
  pool.meanwhile = (method) => {
    if (method === 'thinDelta') pool.write(2);
  };
  await assert.rejects(collect(pool), { code: StatusCode.FAILED_PRECONDITION });
  assert.equal(pool.calls.thinDelta, 3);
});

test('invalid blocks are a failure if the trees did not change, and a restart if they did', async () => {
  const pool = poolWith([[SAME, 0, 5]]);
  pool.meanwhile = (method, call) => {
    if (method !== 'thinDelta' || call > 1) return;
    pool.write(2);
    throw metadataFailure('THIN_METADATA_INVALID');
  };
  assert.deepEqual(await collect(pool), [run(SAME, 0n, 5n)]);
  pool.meanwhile = (method) => {
    if (method === 'thinDelta') throw metadataFailure('THIN_METADATA_INVALID');
  };
  await assert.rejects(collect(pool), {
    code: StatusCode.FAILED_PRECONDITION,
    message: /block 12/,
  });
});

test('a pool that commits faster than it can be read is refused with the remedy', async () => {
  const pool = poolWith([[SAME, 0, 5]]);
  pool.meanwhile = (method) => {
    if (method === 'thinDelta') throw metadataFailure('SCAN_REPLACED');
  };
  await assert.rejects(collect(pool), {
    code: StatusCode.FAILED_PRECONDITION,
    message: /SCAN_REPLACED: reserve a metadata snapshot/,
  });
});

test('an aborted delta makes no further call', async () => {
  const pool = poolWith([[SAME, 0, 5]], [[DIFFERENT, 5, 1]]);
  const interrupt = new AbortController();
  pool.meanwhile = (method) => {
    if (method === 'thinDelta') interrupt.abort(new Error('enough'));
  };
  await assert.rejects(collect(pool, [], interrupt.signal), /enough/);
  assert.equal(pool.calls.thinDelta, 1);
});

test('all runs but the equal ones are changed ranges, in bytes', () => {
  const ranges = new ChangedRanges(65536n);
  const first = ranges.accept([
    run(LEFT_ONLY, 0n, 1n),
    run(DIFFERENT, 1n, 2n),
    run(SAME, 3n, 1n),
    run(RIGHT_ONLY, 4n, 1n),
  ]);
  assert.deepEqual(first, [{ offset: 0n, size: 3n * 65536n }]);
  assert.deepEqual(ranges.accept([run(DIFFERENT, 5n, 1n)]), []);
  assert.deepEqual(ranges.finish(), [{ offset: 4n * 65536n, size: 2n * 65536n }]);
  assert.deepEqual(ranges.finish(), []);
});
