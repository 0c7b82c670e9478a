/**
 * The formats of lists and summaries. Sizes are in bytes. In JSON they are strings, because most JSON
 * readers are inexact above 2^53.
 */
import { Option } from 'commander';
import { humanSize, rounded, withHumanSize } from '../../base/human-size.js';
import type { Entry } from '../../tools/client/list.js';

/** `--json`, which every command with output for programs has. */
export function jsonOption(): Option {
  return new Option('--json', 'the same as --format ndjson').implies({ format: 'ndjson' });
}

export const FORMATS = ['table', 'ndjson', 'csv'] as const;
export type Format = (typeof FORMATS)[number];

export interface ListFormatter {
  head(capacityBytes: bigint): string;
  rows(entries: readonly Entry[]): string;
}

export interface Summary {
  ranges: number;
  /** Sum of the sizes of the ranges. */
  sizeBytes: bigint;
  /** Null if the stream had no message. */
  capacityBytes: bigint | null;
  seconds: number;
  firstMessageMs: number | null;
  messages: number;
  resumes: number;
  /** The list before its ranges were rounded to a grain. */
  unmerged?: { ranges: number; bytes: bigint };
}

export function createListFormatter(format: Format): ListFormatter {
  switch (format) {
    case 'table':
      return new TableFormatter();
    case 'csv':
      return {
        head: () => 'byte_offset,size_bytes\n',
        rows: (entries) => joinRows(entries, ({ offset, size }) => `${offset},${size}\n`),
      };
    case 'ndjson':
      return {
        head: () => '',
        rows: (entries) =>
          joinRows(entries, ({ offset, size }) => `{"byte_offset":"${offset}","size_bytes":"${size}"}\n`),
      };
  }
}

class TableFormatter implements ListFormatter {
  #width = 0;

  head(capacityBytes: bigint): string {
    this.#width = Math.max(capacityBytes.toString().length, 'OFFSET'.length);
    return `${'OFFSET'.padStart(this.#width)}  ${'SIZE'.padStart(this.#width)}\n`;
  }

  rows(entries: readonly Entry[]): string {
    return joinRows(entries, ({ offset, size }) => {
      const numbers = [offset, size].map((value) => value.toString().padStart(this.#width));
      return `${numbers.join('  ')}  ${humanSize(size)}\n`;
    });
  }
}

export function formatSummary(format: Format, summary: Summary): string {
  return format === 'table' ? summaryTable(summary) : recordOf(format, summaryFields(summary));
}

/** One record; csv has a header line with the field names. */
export function recordOf(
  format: Exclude<Format, 'table'>,
  fields: Readonly<Record<string, string | number | null>>,
): string {
  if (format === 'ndjson') return `${JSON.stringify(fields)}\n`;
  return `${Object.keys(fields).join(',')}\n${Object.values(fields).join(',')}\n`;
}

function summaryFields(summary: Summary): Record<string, string | number | null> {
  return {
    ranges: summary.ranges,
    size_bytes: summary.sizeBytes.toString(),
    volume_capacity_bytes: summary.capacityBytes?.toString() ?? null,
    share: shareOf(summary),
    seconds: rounded(summary.seconds, 3),
    first_message_ms: summary.firstMessageMs === null ? null : rounded(summary.firstMessageMs, 1),
    messages: summary.messages,
    resumes: summary.resumes,
    ...(summary.unmerged === undefined
      ? {}
      : {
          unmerged_ranges: summary.unmerged.ranges,
          unmerged_size_bytes: summary.unmerged.bytes.toString(),
        }),
  };
}

function summaryTable(summary: Summary): string {
  const { capacityBytes, sizeBytes } = summary;
  const share = shareOf(summary);
  const capacity = capacityBytes === null ? 'unknown' : withHumanSize(capacityBytes);
  const percent = share === null ? '' : `, ${rounded(share * 100, 2)} % of the volume`;
  const first = summary.firstMessageMs === null ? '-' : `${rounded(summary.firstMessageMs, 1)} ms`;
  return [
    `ranges         ${summary.ranges}`,
    `bytes          ${withHumanSize(sizeBytes)}${percent}`,
    ...grainLines(summary),
    `volume         ${capacity}`,
    `time           ${rounded(summary.seconds, 3)} s`,
    `first message  ${first}`,
    `messages       ${summary.messages}`,
    `resumes        ${summary.resumes}`,
    '',
  ].join('\n');
}

/** The line that says what rounding to a grain costs; none if the list has no grain. */
function grainLines({ unmerged, sizeBytes }: Summary): string[] {
  if (unmerged === undefined) return [];
  const times = unmerged.bytes === 0n ? 1 : Number(sizeBytes) / Number(unmerged.bytes);
  const before = `${unmerged.ranges} ranges, ${withHumanSize(unmerged.bytes)}`;
  return [`without grain  ${before}; the grain reads ${rounded(times, 2)} times as much`];
}

function shareOf({ sizeBytes, capacityBytes }: Summary): number | null {
  if (capacityBytes === null || capacityBytes === 0n) return null;
  return rounded(Number(sizeBytes) / Number(capacityBytes), 6);
}

function joinRows(entries: readonly Entry[], row: (entry: Entry) => string): string {
  return entries.map(row).join('');
}
