/** Resuming a list, with a scripted source of messages instead of a socket. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { StatusCode } from '../../../src/base/errors.js';
import type { MetadataMessage, MetadataRequest } from '../../../src/client/connection.js';
import {
  createProgress,
  InterruptedError,
  type OpenMetadata,
  readMetadata,
} from '../../../src/client/resumable-stream.js';
import { seededRandom } from '../../support/random.js';

const REQUEST: MetadataRequest = {
  rpc: 'GetMetadataAllocated',
  ids: { snapshot_id: 's' },
  startingOffset: 0n,
  maxResults: 0,
};
const CAPACITY = 1_000_000n;

type Range = readonly [bigint, bigint];

function failure(code: number): Error {
  return Object.assign(new Error(`${code}`), { code, details: 'scripted' });
}

function message(ranges: readonly Range[]): MetadataMessage {
  return {
    block_metadata_type: 'VARIABLE_LENGTH',
    volume_capacity_bytes: CAPACITY.toString(),
    block_metadata: ranges.map(([offset, size]) => ({
      byte_offset: offset.toString(),
      size_bytes: size.toString(),
    })),
  };
}

interface Reading {
  ranges: Range[];
  offsets: bigint[];
  resumes: number;
}

async function read(open: OpenMetadata, startingOffset = 0n): Promise<Reading> {
  const offsets: bigint[] = [];
  const progress = createProgress();
  const ranges: Range[] = [];
  const opened: OpenMetadata = (request, signal) => {
    offsets.push(request.startingOffset);
    return open(request, signal);
  };
  const options = {
    signal: new AbortController().signal,
    progress,
    onInterrupted: () => undefined,
    retryDelayMs: 0,
  };
  for await (const entries of readMetadata(opened, { ...REQUEST, startingOffset }, options)) {
    ranges.push(...entries.map(({ offset, size }): Range => [offset, size]));
  }
  return { ranges, offsets, resumes: progress.resumes };
}

test('a list interrupted at random places is the same as an uninterrupted one', async () => {
  const random = seededRandom('resume');
  for (let round = 0; round < 20; round += 1) {
    const oracle: Range[] = [];
    for (let at = 0n; at < CAPACITY - 5000n; ) {
      const offset = at + BigInt(random.below(3000)) + 1n;
      const size = BigInt(random.below(2000)) + 1n;
      oracle.push([offset, size]);
      at = offset + size;
    }
    const step = random.pick([1n, 1n, 512n]);
    const open: OpenMetadata = async function* ({ startingOffset }) {
      const rest = oracle
        .filter(([offset, size]) => offset + size > startingOffset)
        // A conforming server may begin anywhere up to the offset asked for, but not in a hole.
        .map(([offset, size]): Range => {
          const begin = startingOffset > offset ? startingOffset - (startingOffset % step) : offset;
          const first = begin > offset ? begin : offset;
          return [first, offset + size - first];
        });
      while (rest.length > 0) {
        if (random.below(8) === 0) throw failure(random.pick([1, 2, 4, 10, 13, 14]));
        const count = random.below(10) + 1;
        const part = rest.splice(0, count);
        const last = part.at(-1) as Range;
        const head = last[1] / 2n;
        // And it may cut a range in two between messages.
        if (last[0] + head > startingOffset && head > 0n && random.below(3) === 0) {
          yield message([...part.slice(0, -1), [last[0], head]]);
          throw failure(StatusCode.UNAVAILABLE);
        }
        yield message(part);
      }
    };
    const { ranges } = await read(open);
    assert.deepEqual(ranges, oracle);
  }
});

test('each stream starts at the end of the last entry', async () => {
  let opened = 0;
  const { ranges, offsets, resumes } = await read(async function* () {
    opened += 1;
    if (opened === 1) {
      yield message([[10n, 10n]]);
      yield message([[30n, 10n]]);
      throw failure(StatusCode.UNAVAILABLE);
    }
    if (opened === 2) throw failure(StatusCode.ABORTED);
    yield message([[60n, 10n]]);
  }, 15n);
  assert.deepEqual(offsets, [15n, 40n, 40n]);
  assert.equal(resumes, 2);
  assert.deepEqual(ranges, [
    [10n, 10n],
    [30n, 10n],
    [60n, 10n],
  ]);
});

/** A driver that gives these ranges to each attempt and then ends in that way; how often it is asked. */
async function attempts(
  end: number | null,
  rangesOf: (attempt: number) => readonly Range[],
): Promise<{ opened: number; failure: unknown; ranges: readonly Range[] }> {
  let opened = 0;
  const reading = read(async function* () {
    opened += 1;
    yield message(rangesOf(opened));
    if (end !== null) throw failure(end);
  });
  return reading.then(
    ({ ranges }) => ({ opened, failure: null, ranges }),
    (failure) => ({ opened, failure, ranges: [] }),
  );
}

test('five attempts in a row without progress are the end, with the last failure as the cause', async () => {
  for (const [progress, expected] of [
    [3, 8],
    // A message without entries is not progress.
    [0, 5],
  ] as const) {
    const { opened, failure } = await attempts(StatusCode.UNAVAILABLE, (attempt) =>
      attempt <= progress ? [[BigInt(attempt) * 10n, 5n]] : [],
    );
    assert.ok(failure instanceof InterruptedError);
    assert.equal((failure.cause as { code?: number }).code, StatusCode.UNAVAILABLE);
    assert.equal(opened, expected);
  }
});

const FINAL = [
  ...['INVALID_ARGUMENT', 'NOT_FOUND', 'PERMISSION_DENIED', 'RESOURCE_EXHAUSTED'],
  ...['FAILED_PRECONDITION', 'OUT_OF_RANGE', 'UNIMPLEMENTED', 'UNAUTHENTICATED'],
] as (keyof typeof StatusCode)[];

test('a refusal that another attempt would not change is final, and so is an invalid list', async () => {
  for (const name of FINAL) {
    const { opened, failure } = await attempts(StatusCode[name], () => [[0n, 5n]]);
    assert.deepEqual([(failure as { code?: number }).code, opened], [StatusCode[name], 1], name);
  }
  const { opened, failure } = await attempts(null, () => [
    [10n, 5n],
    [0n, 5n],
  ]);
  assert.match(String(failure), /out of order/);
  assert.equal(opened, 1);
});

test('a stream that breaks after the last byte of the volume is complete', async () => {
  const last: Range = [CAPACITY - 10n, 10n];
  const found = await attempts(StatusCode.UNAVAILABLE, () => [last]);
  assert.deepEqual(found, { opened: 1, failure: null, ranges: [last] });
});

test('an abort ends the pause before the next attempt', async () => {
  const abort = new AbortController();
  const reading = readMetadata(
    async function* (): AsyncGenerator<MetadataMessage> {
      yield message([]);
      throw failure(StatusCode.UNAVAILABLE);
    },
    REQUEST,
    {
      signal: abort.signal,
      progress: createProgress(),
      onInterrupted: () => abort.abort(new Error('stop')),
      retryDelayMs: 60_000,
    },
  );
  await assert.rejects(reading.next());
});
