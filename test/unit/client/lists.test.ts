/** A list of ranges as a client gets it: put together from messages, resumed after interruptions, rounded to a grain. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { StatusCode } from '../../../src/base/errors.js';
import { GrainMerger, parseGrain } from '../../../src/tools/client/grain.js';
import { type Entry, InvalidListError, MetadataList } from '../../../src/tools/client/list.js';
import type { MetadataMessage, MetadataRequest } from '../../../src/tools/client/metadata-stream.js';
import {
  createProgress,
  InterruptedError,
  type OpenMetadata,
  readMetadata,
} from '../../../src/tools/client/resumable-stream.js';
import { seededRandom } from '../../support/random.js';

const CAPACITY = 1000;

type Range = readonly [offset: bigint, size: bigint];

function message(ranges: readonly Range[], capacity: bigint, type?: string): MetadataMessage {
  return {
    block_metadata_type: type ?? 'VARIABLE_LENGTH',
    volume_capacity_bytes: String(capacity),
    block_metadata: ranges.map(([offset, size]) => ({ byte_offset: String(offset), size_bytes: String(size) })),
  };
}

/** `0+10 20+10`: rows of offset and size. */
const rangesOf = (text: string): Range[] =>
  text.split(' ').flatMap((row): Range[] => {
    const [offset, size] = row.split('+').filter(Boolean).map(BigInt);
    return offset === undefined || size === undefined ? [] : [[offset, size]];
  });

/** Messages are divided by `,`, streams, as after an interruption, by `|`. A message may have another type and capacity. */
function listOf(text: string, startingOffset = 0, type = 'VARIABLE_LENGTH'): string {
  const list = new MetadataList(BigInt(startingOffset));
  const entries = text.split('|').flatMap((stream, index) => {
    if (index > 0) list.resume();
    return stream.split(',').flatMap((each) => {
      const [rows = '', capacity = CAPACITY, own = type] = each.trim().split('/');
      return list.accept(message(rangesOf(rows.trim()), BigInt(capacity), own));
    });
  });
  return [...entries, ...list.finish()].map(({ offset, size }) => `${offset}+${size}`).join(' ');
}

test('an uninterrupted list is unchanged, including adjacent entries', () => {
  assert.equal(listOf('0+10, , 10+10 30+5 995+5'), '0+10 10+10 30+5 995+5');
  assert.equal(listOf(''), '');
});

test('a range split by interruptions is merged again, without what is known of it', () => {
  assert.equal(listOf('0+10 | 10+20, 30+5'), '0+30 30+5');
  assert.equal(listOf('0+10 | 10+10 | 20+10'), '0+30');
  // A server that reports in steps of 16 repeats the step in which the cut was.
  assert.equal(listOf('0+10 | 0+32'), '0+32');
  assert.equal(listOf('0+10 | , 4+28'), '0+32');
});

test('blocks of fixed length are never merged', () => {
  assert.equal(listOf('0+10 | 10+10', 0, 'FIXED_LENGTH'), '0+10 10+10');
});

test('the first range of the list may begin before the requested offset', () => {
  assert.equal(listOf('40+20', 50), '40+20');
});

const VIOLATIONS: readonly [what: string, list: string, found: RegExp, startingOffset?: number][] = [
  ['goes back', '10+5, 0+5', /out of order/],
  ['overlaps itself', '0+10 9+5', /out of order/],
  ['repeats an entry', '0+10 0+10', /out of order/],
  ['holds an empty range', '0+0', /0 bytes at 0/],
  ['reaches behind the end of the volume', '995+6', /6 bytes at 995/],
  ['changes its capacity', '0+5, 5+5/999', /capacity changed/],
  ['grows', '0+5, 5+5/1001', /capacity changed/],
  ['changes its capacity across a cut', '0+5 | /999', /capacity/],
  ['changes its type', '0+5, /1000/FIXED_LENGTH', /type/],
  ['starts again after a cut', '0+10 20+10 | 0+10', /from 30/],
  ['is empty, of a volume of negative size', '/-4096', /the volume has -4096 bytes/],
  ['ends before the requested offset', '0+50', /requested from 50/, 50],
];

test('a list that breaks a rule is refused', () => {
  for (const [what, list, message, startingOffset] of VIOLATIONS) {
    assert.throws(
      () => listOf(list, startingOffset),
      (error) => error instanceof InvalidListError && message.test(error.message),
      what,
    );
  }
});

const REQUEST: MetadataRequest = {
  rpc: 'GetMetadataAllocated',
  ids: { snapshot_id: 's' },
  startingOffset: 0n,
  maxResults: 0,
};
const SCRIPTED_BYTES = 1_000_000n;

function failure(code: number): Error {
  return Object.assign(new Error(`${code}`), { code, details: 'scripted' });
}

const messageOf = (ranges: readonly Range[]): MetadataMessage => message(ranges, SCRIPTED_BYTES);

async function read(open: OpenMetadata, startingOffset = 0n) {
  const offsets: bigint[] = [];
  const progress = createProgress();
  const ranges: Range[] = [];
  const opened: OpenMetadata = (request, signal) => {
    offsets.push(request.startingOffset);
    return open(request, signal);
  };
  const options = { signal: new AbortController().signal, progress, onInterrupted: () => undefined, retryDelayMs: 0 };
  for await (const entries of readMetadata(opened, { ...REQUEST, startingOffset }, options)) {
    ranges.push(...entries.map(({ offset, size }): Range => [offset, size]));
  }
  return { ranges, offsets, resumes: progress.resumes };
}

test('a list interrupted at random places is the same as an uninterrupted one', async () => {
  const random = seededRandom('resume');
  for (let round = 0; round < 20; round += 1) {
    const oracle: Range[] = [];
    for (let at = 0n; at < SCRIPTED_BYTES - 5000n; ) {
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
          yield messageOf([...part.slice(0, -1), [last[0], head]]);
          throw failure(StatusCode.UNAVAILABLE);
        }
        yield messageOf(part);
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
      yield messageOf([[10n, 10n]]);
      yield messageOf([[30n, 10n]]);
      throw failure(StatusCode.UNAVAILABLE);
    }
    if (opened === 2) throw failure(StatusCode.ABORTED);
    yield messageOf([[60n, 10n]]);
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
    yield messageOf(rangesOf(opened));
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
  'INVALID_ARGUMENT',
  'NOT_FOUND',
  'PERMISSION_DENIED',
  'RESOURCE_EXHAUSTED',
  'FAILED_PRECONDITION',
  'OUT_OF_RANGE',
  'UNIMPLEMENTED',
  'UNAUTHENTICATED',
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
  const last: Range = [SCRIPTED_BYTES - 10n, 10n];
  const found = await attempts(StatusCode.UNAVAILABLE, () => [last]);
  assert.deepEqual(found, { opened: 1, failure: null, ranges: [last] });
});

test('an abort ends the pause before the next attempt', async () => {
  const abort = new AbortController();
  const reading = readMetadata(
    async function* (): AsyncGenerator<MetadataMessage> {
      yield messageOf([]);
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

const range = (offset: number, size: number): Entry => ({ offset: BigInt(offset), size: BigInt(size) });

function merged(entries: readonly Entry[], grain: bigint, capacity: bigint): Entry[] {
  const merger = new GrainMerger(grain);
  return [...entries.flatMap((entry) => merger.add([entry], capacity)), ...merger.finish()];
}

test('ranges are rounded outwards, merged where they touch, cut off at the end, and counted', () => {
  const merger = new GrainMerger(16_384n);
  const list = [range(4096, 4096), range(20_480, 4096), range(98_304, 1024)];
  const found = [...merger.add(list, 100_000n), ...merger.finish()];
  assert.deepEqual(found, [range(0, 32_768), range(98_304, 1696)]);
  assert.deepEqual(merger.cost, { ranges: 3, bytes: 9216n, mergedRanges: 2, mergedBytes: 34_464n });
});

test('the chunks of the merged list are those that the list touches', () => {
  const random = seededRandom('grain');
  for (let round = 0; round < 200; round += 1) {
    const grain = 512 << random.below(6);
    const capacity = 1 + random.below(200_000);
    const list: Entry[] = [];
    for (let at = random.below(5000); at < capacity; at += 1 + random.below(9000)) {
      const size = Math.min(1 + random.below(6000), capacity - at);
      list.push(range(at, size));
      at += size;
    }
    const touched = new Set<number>();
    for (const { offset, size } of list) {
      const last = Number(offset + size - 1n);
      for (let at = Math.floor(Number(offset) / grain); at <= last / grain; at += 1) touched.add(at);
    }
    const found = new Set<number>();
    const result = merged(list, BigInt(grain), BigInt(capacity));
    result.forEach(({ offset, size }, index) => {
      assert.equal(Number(offset) % grain, 0);
      const before = result[index - 1];
      assert.ok(before === undefined || before.offset + before.size < offset, 'not merged');
      assert.ok(Number(offset + size) <= capacity);
      for (let at = Number(offset); at < Number(offset + size); at += grain) found.add(at / grain);
    });
    assert.deepEqual(found, touched);
  }
});

test('a grain is a multiple of 512 bytes, with or without a unit', () => {
  const sizes = ['512', '65536', '64Ki', '64k', '1Mi', '1MiB', '1G'];
  assert.deepEqual(sizes.map(parseGrain), [512n, 65_536n, 65_536n, 65_536n, 1n << 20n, 1n << 20n, 1n << 30n]);
  for (const wrong of ['', '0', '100', '2Gi', '-512', '64Ti', 'Ki', '1.5Mi']) {
    assert.equal(parseGrain(wrong), null, wrong);
  }
});
