/** How a delta of two thin devices looks: as ranges of bytes, as sums, or as thin_delta prints it. */
import { ThinDeltaKind, type ThinSuperblock } from '../../native/thin-addon.js';
import {
  createListFormatter,
  FORMATS,
  type Format,
  recordOf,
  rounded,
  withHumanSize,
} from '../metadata/formats.js';
import { ChangedRanges } from './ranges.js';
import type { Batch } from './runs.js';
import { XML_TAIL, xmlHead, xmlRows } from './xml.js';

export const THIN_FORMATS = [...FORMATS, 'xml'] as const;
export type ThinFormat = (typeof THIN_FORMATS)[number];

/** What a delta is of. */
export interface DeltaHead {
  /** Where reading began. */
  superblock: ThinSuperblock;
  /** Bytes of the pool's data device. */
  poolBytes: bigint;
  base: number;
  target: number;
}

export interface Printer {
  /** What comes before the first batch. */
  readonly head: string;
  rows(batch: Batch): string;
  /** What comes when the list is known to be whole. */
  tail(): string;
}

export function createPrinter(format: ThinFormat, delta: DeltaHead): Printer {
  return format === 'xml' ? xmlPrinter(delta) : rangesPrinter(format, delta);
}

function xmlPrinter({ superblock, base, target }: DeltaHead): Printer {
  return {
    head: xmlHead(superblock, base, target),
    rows: ({ runs }) => xmlRows(runs),
    tail: () => XML_TAIL,
  };
}

function rangesPrinter(format: Format, { superblock, poolBytes }: DeltaHead): Printer {
  const ranges = new ChangedRanges(superblock.dataBlockBytes);
  const formatter = createListFormatter(format);
  return {
    // The metadata does not know how large a thin device is; the pool's size makes columns wide enough.
    head: formatter.head(poolBytes),
    rows: ({ runs }) => formatter.rows(ranges.accept(runs)),
    tail: () => formatter.rows(ranges.finish()),
  };
}

/** Sums instead of the list. `secondsSoFar` is asked at the end. */
export function createSummaryPrinter(
  format: Format,
  { superblock }: DeltaHead,
  secondsSoFar: () => number,
): Printer {
  const ranges = new ChangedRanges(superblock.dataBlockBytes);
  const blocks = [0n, 0n, 0n, 0n];
  let rangeCount = 0;
  let nodes = 0;
  const bytesOf = (kind: number): bigint => (blocks[kind] ?? 0n) * superblock.dataBlockBytes;
  return {
    head: '',
    rows: (batch) => {
      nodes += batch.nodes;
      rangeCount += ranges.accept(batch.runs).length;
      for (const { kind, length } of batch.runs) blocks[kind] = (blocks[kind] ?? 0n) + length;
      return '';
    },
    tail: () =>
      formatThinSummary(format, {
        ranges: rangeCount + ranges.finish().length,
        leftOnlyBytes: bytesOf(ThinDeltaKind.LEFT_ONLY),
        rightOnlyBytes: bytesOf(ThinDeltaKind.RIGHT_ONLY),
        differentBytes: bytesOf(ThinDeltaKind.DIFFERENT),
        nodes,
        seconds: secondsSoFar(),
      }),
  };
}

interface ThinSummary {
  ranges: number;
  leftOnlyBytes: bigint;
  rightOnlyBytes: bigint;
  differentBytes: bigint;
  nodes: number;
  seconds: number;
}

function formatThinSummary(format: Format, summary: ThinSummary): string {
  const { ranges, leftOnlyBytes, rightOnlyBytes, differentBytes, nodes } = summary;
  const sizeBytes = leftOnlyBytes + rightOnlyBytes + differentBytes;
  const seconds = rounded(summary.seconds, 3);
  if (format !== 'table') {
    return recordOf(format, {
      ranges,
      size_bytes: sizeBytes.toString(),
      left_only_bytes: leftOnlyBytes.toString(),
      right_only_bytes: rightOnlyBytes.toString(),
      different_bytes: differentBytes.toString(),
      nodes,
      seconds,
    });
  }
  return [
    `ranges         ${ranges}`,
    `bytes          ${withHumanSize(sizeBytes)}`,
    `  left only    ${withHumanSize(leftOnlyBytes)}`,
    `  right only   ${withHumanSize(rightOnlyBytes)}`,
    `  different    ${withHumanSize(differentBytes)}`,
    `nodes read     ${nodes}`,
    `time           ${seconds} s`,
    '',
  ].join('\n');
}
