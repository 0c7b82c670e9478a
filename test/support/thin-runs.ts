/** Thin metadata as the addon reads it and as thin_delta and thin_dump print it, in the same form. */
import assert from 'node:assert/strict';
import type { Addon, ScanSource } from '../../src/native/addon.js';
import type { Range } from './csi-client.js';
import type { Random } from './random.js';
import { merged } from './ranges.js';
import { decodeFrames } from './wire.js';

export interface Run {
  kind: string;
  begin: bigint;
  length: bigint;
}

const KINDS = ['same', 'left_only', 'right_only', 'different'] as const;
const FILL_BUFFER_BYTES = 256 * 1024;

export interface DeltaQuestion {
  metadata: string;
  superblock: bigint;
  base: number | null;
  target: number;
  includeSame: boolean;
}

/** By thinDelta, in calls of random size. */
export function runsOf(addon: Addon, question: DeltaQuestion, random: Random): Run[] {
  const runs: Run[] = [];
  let firstBlock = 0n;
  for (;;) {
    const maxRecords = 1 + random.below(random.pick([3, 500, 65536]));
    const answer = addon.thinDelta({ ...question, firstBlock, maxRecords });
    if (!answer.ok) throw new Error(answer.message);
    for (let at = 0; at < answer.words.length; at += 3) {
      const [kind, begin, length] = answer.words.subarray(at, at + 3);
      assert.ok(kind !== undefined && begin !== undefined && length !== undefined);
      append(runs, { kind: KINDS[Number(kind)] ?? String(kind), begin, length });
    }
    if (answer.done) return runs;
    assert.ok(answer.nextBlock > firstBlock, 'a call gets on');
    firstBlock = answer.nextBlock;
  }
}

/** By fillMetadata, in calls of random size. */
export function rangesOf(addon: Addon, source: ScanSource, random: Random): Range[] {
  const buffer = new ArrayBuffer(FILL_BUFFER_BYTES);
  const ranges: Range[] = [];
  let position = { offset: 0n, rangeStart: 0n };
  for (;;) {
    const answer = addon.fillMetadata(
      {
        source,
        ...position,
        maxEntries: 1 + random.below(random.pick([5, 5000])),
        maxEntriesPerMessage: 1 + random.below(1000),
        maxExtents: 1 + random.below(random.pick([20, 100_000])),
        sendEmpty: false,
      },
      buffer,
    );
    if (!answer.ok) throw new Error(answer.message);
    for (const message of decodeFrames(new Uint8Array(buffer, 0, answer.bytes))) {
      ranges.push(...message.ranges);
    }
    if (answer.done) return ranges;
    position = { offset: answer.nextOffset, rangeStart: answer.nextRangeStart };
  }
}

/** What a list of changed blocks comes to in a volume of so many bytes. */
export function toRanges(runs: readonly Run[], blockBytes: bigint, sizeBytes: bigint): Range[] {
  const ranges = runs.flatMap(({ kind, begin, length }) => {
    const offset = begin * blockBytes;
    const end = (begin + length) * blockBytes;
    if (kind === 'same' || offset >= sizeBytes) return [];
    return [{ offset, size: (end < sizeBytes ? end : sizeBytes) - offset }];
  });
  return merged(ranges);
}

/** The records of thin_delta's output. */
export function deltaRecords(xml: string): Run[] {
  const record = /<(same|left_only|right_only|different) begin="(\d+)" length="(\d+)"\/>/g;
  return [...xml.matchAll(record)].map(([, kind = '', begin = '', length = '']) => ({
    kind,
    begin: BigInt(begin),
    length: BigInt(length),
  }));
}

/** What thin_dump's output says to be mapped in each device. */
export function dumpedMappings(xml: string): Map<number, Run[]> {
  const devices = new Map<number, Run[]>();
  const element =
    /<(device dev_id|single_mapping origin_block|range_mapping origin_begin)="(\d+)"([^>]*)>/g;
  let runs: Run[] = [];
  for (const [, name = '', number = '', rest = ''] of xml.matchAll(element)) {
    if (name.startsWith('device')) {
      runs = [];
      devices.set(Number(number), runs);
    } else {
      const length = BigInt(/ length="(\d+)"/.exec(rest)?.[1] ?? 1);
      append(runs, { kind: 'right_only', begin: BigInt(number), length });
    }
  }
  return devices;
}

/** Neighbours of one kind become one. */
function append(runs: Run[], run: Run): void {
  const last = runs.at(-1);
  if (last?.kind === run.kind && last.begin + last.length === run.begin) last.length += run.length;
  else runs.push({ ...run });
}
