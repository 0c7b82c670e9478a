/** Prints a delta of two thin devices: as byte ranges, as totals, or as thin_delta does. */
import { rounded, withHumanSize } from '../../base/human-size.js';
import type { Batch, Run, RunKind } from '../../driver/inspection/thin-runs.js';
import { ThinDeltaKind, type ThinSuperblock } from '../../driver/native/thin-addon.js';
import type { Entry } from '../../tools/client/list.js';
import { createListFormatter, FORMATS, type Format, recordOf } from '../metadata/formats.js';

export const THIN_FORMATS = [...FORMATS, 'xml'] as const;
export type ThinFormat = (typeof THIN_FORMATS)[number];

export interface DeltaHead {
  /** The superblock that the trees were read from. */
  superblock: ThinSuperblock;
  /** Bytes of the pool's data device. */
  poolBytes: bigint;
  base: number;
  target: number;
}

export interface Printer {
  readonly head: string;
  rows(batch: Batch): string;
  /** The text after the last batch, once the list is complete. */
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
    // Pool metadata has no sizes of thin devices; the pool's size makes the columns wide enough.
    head: formatter.head(poolBytes),
    rows: ({ runs }) => formatter.rows(ranges.accept(runs)),
    tail: () => formatter.rows(ranges.finish()),
  };
}

/** Prints totals instead of the list. `secondsSoFar` is called at the end. */
export function createSummaryPrinter(format: Format, { superblock }: DeltaHead, secondsSoFar: () => number): Printer {
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

/**
 * The xml format is what thin_delta 0.9 of thin-provisioning-tools prints, byte for byte, so that scripts can
 * switch. Its peculiarities: the uuid is always empty, metadata_snap appears only when the pool's own
 * superblock was read, and the superblock of a metadata snapshot has nr_data_blocks 0.
 */
const ELEMENTS: Readonly<Record<RunKind, string>> = {
  [ThinDeltaKind.SAME]: 'same',
  [ThinDeltaKind.LEFT_ONLY]: 'left_only',
  [ThinDeltaKind.RIGHT_ONLY]: 'right_only',
  [ThinDeltaKind.DIFFERENT]: 'different',
};
const SECTOR_BYTES = 512n;

export function xmlHead(superblock: ThinSuperblock, left: number, right: number): string {
  const attributes: [string, string | number | bigint][] = [
    ['uuid', ''],
    ['time', superblock.time],
    ['transaction', superblock.transactionId],
    ['data_block_size', superblock.dataBlockBytes / SECTOR_BYTES],
    ['nr_data_blocks', superblock.dataBlocks],
  ];
  if (superblock.heldRoot !== null) attributes.push(['metadata_snap', superblock.heldRoot]);
  const list = attributes.map(([name, value]) => `${name}="${value}"`).join(' ');
  return `<superblock ${list}>\n  <diff left="${left}" right="${right}">\n`;
}

export function xmlRows(runs: readonly Run[]): string {
  return runs
    .map(({ kind, begin, length }) => `    <${ELEMENTS[kind]} begin="${begin}" length="${length}"/>\n`)
    .join('');
}

export const XML_TAIL = '  </diff>\n</superblock>\n';

/** The byte ranges that changed: all runs but those of kind SAME; adjacent ones are merged. */
export class ChangedRanges {
  #held: Entry | null = null;

  constructor(private readonly blockBytes: bigint) {}

  /** Returns the ranges that are final. */
  accept(runs: readonly Run[]): Entry[] {
    const entries: Entry[] = [];
    for (const { kind, begin, length } of runs) {
      if (kind === ThinDeltaKind.SAME) continue;
      const held = this.#held;
      const offset = begin * this.blockBytes;
      const size = length * this.blockBytes;
      if (held !== null && held.offset + held.size === offset) {
        this.#held = { offset: held.offset, size: held.size + size };
      } else {
        if (held !== null) entries.push(held);
        this.#held = { offset, size };
      }
    }
    return entries;
  }

  /** Returns the last range, if there is one. */
  finish(): Entry[] {
    const entries = this.#held === null ? [] : [this.#held];
    this.#held = null;
    return entries;
  }
}
