/**
 * The rows that have a target of speed, in the order of the report. A suite takes its target from here, so that a
 * row's name, its order and its bound stand in one place.
 */
import type { Bound, Judged, Target } from './row.js';

export interface TargetRow {
  name: string;
  suite: string;
  /** For the table in docs/performance.md. */
  measure: string;
  beside: string;
  /** What is compared with the bound. */
  label: string;
  unit: string;
  judged: Judged;
  bound: Bound;
}

const RATIO = { label: 'ratio', unit: '', judged: 'median' } as const;

export const SPEED_TABLE = [
  {
    name: 'stream-cpu-8192',
    suite: 'stream',
    measure: 'server CPU per million entries, 8192 entries a message',
    beside: 'C++ gRPC with generated messages, same C++ client',
    ...RATIO,
    bound: { atMost: 0.85, stretch: 0.7 },
  },
  {
    name: 'stream-cpu-256',
    suite: 'stream',
    measure: 'server CPU per million entries, 256 entries a message',
    beside: 'C++ gRPC with generated messages, same C++ client',
    ...RATIO,
    bound: { atMost: 0.8 },
  },
  {
    name: 'stream-throughput',
    suite: 'stream',
    measure: 'throughput, best of the rounds',
    beside: 'raw C socket that sends the same bytes',
    label: 'best against best',
    unit: '',
    judged: 'median',
    bound: { atLeast: 0.3 },
  },
  {
    name: 'stream-rss-fast',
    suite: 'stream',
    measure: 'RSS growth over 100 million entries, fast reader',
    beside: 'the same server, warm, before the stream',
    label: 'growth',
    unit: ' MiB',
    judged: 'max',
    bound: { atMost: 16 },
  },
  {
    name: 'stream-rss-slow',
    suite: 'stream',
    measure: 'RSS growth over 100 million entries, slow reader',
    beside: 'the same server, warm, before the stream',
    label: 'growth',
    unit: ' MiB',
    judged: 'max',
    bound: { atMost: 32 },
  },
  {
    name: 'stream-first-message',
    suite: 'stream',
    measure: 'first message of a sparse 16 TiB volume, warm',
    beside: 'first message of a small volume',
    label: 'ratio of medians',
    unit: '',
    judged: 'median',
    bound: { atMost: 1.5 },
  },
  {
    name: 'stream-first-message-time',
    suite: 'stream',
    measure: 'first message of a small volume, warm',
    beside: 'the C++ gRPC server',
    label: 'time',
    unit: ' ms',
    judged: 'median',
    bound: { atMost: 5 },
  },
  {
    name: 'stream-loop-delay',
    suite: 'stream',
    measure: 'event-loop delay, p99, with four streams',
    beside: 'the same server without a stream',
    label: 'p99',
    unit: ' ms',
    judged: 'median',
    bound: { atMost: 25 },
  },
  {
    name: 'reflink-delta-lists',
    suite: 'reflink',
    measure: 'reflink delta, lists stored, 500 k extents each, 1 % changed',
    beside: 'two bare FIEMAP scans and the merge',
    ...RATIO,
    bound: { atMost: 0.02 },
  },
  {
    name: 'reflink-delta-chain',
    suite: 'reflink',
    measure: 'the same over a chain of 30 snapshots',
    beside: 'two bare FIEMAP scans and the merge',
    ...RATIO,
    bound: { atMost: 0.1 },
  },
  {
    name: 'reflink-delta-hot',
    suite: 'reflink',
    measure: 'the same on a volume of 256 MiB in the page cache, every second block changed',
    beside: 'byte comparison from the page cache',
    ...RATIO,
    bound: { atMost: 0.5 },
  },
  {
    name: 'reflink-delta-direct',
    suite: 'reflink',
    measure: 'the same with no list stored',
    beside: 'two bare FIEMAP scans and the merge',
    ...RATIO,
    bound: { atMost: 1.15 },
  },
  {
    name: 'reflink-list-cpu',
    suite: 'reflink',
    measure: 'CPU of making a list on XFS with the older map stored',
    beside: 'one bare FIEMAP scan',
    ...RATIO,
    bound: { atMost: 1.2 },
  },
  {
    name: 'reflink-delta-btrfs',
    suite: 'reflink',
    measure: 'reflink delta on btrfs, 500 k extents',
    beside: 'FIEMAP of both files',
    ...RATIO,
    bound: { atMost: 0.25 },
  },
  {
    name: 'stall-btrfs',
    suite: 'stall',
    measure: 'snapshot of a btrfs volume with 1 M extents, longest gap of a writer',
    beside: 'FICLONE of the same',
    ...RATIO,
    bound: { atMost: 0.1 },
  },
  {
    name: 'lifecycle-mount',
    suite: 'lifecycle',
    measure: 'stage, publish, unpublish and unstage of a formatted xfs volume',
    beside: 'the same by losetup, mount and umount in a shell',
    ...RATIO,
    bound: { atMost: 0.7 },
  },
  {
    name: 'io-random-write',
    suite: 'io',
    measure: '4 KiB random write IOPS on a volume, no snapshot',
    beside: 'the same fio on a file of the pool',
    ...RATIO,
    bound: { atLeast: 0.8 },
  },
  {
    name: 'lifecycle-probe',
    suite: 'lifecycle',
    measure: 'Probe, 1 client',
    beside: 'an empty grpc-js handler',
    ...RATIO,
    bound: { atMost: 1.3 },
  },
  {
    name: 'backup-full',
    suite: 'backup',
    measure: 'full copy of a snapshot of 8 GiB into an image',
    beside: 'dd of the same bytes',
    ...RATIO,
    bound: { atLeast: 0.7 },
  },
  {
    name: 'backup-incremental',
    suite: 'backup',
    measure: 'incremental copy of the same, 1 % changed in pieces of 64 KiB',
    beside: 'the full copy',
    ...RATIO,
    bound: { atMost: 0.05 },
  },
] as const satisfies readonly TargetRow[];

export type SpeedRow = (typeof SPEED_TABLE)[number];
export type TargetName = SpeedRow['name'];

/**
 * The target of a row of the speed table.
 *
 * @param rounds what is compared with the bound; empty if it was not measured
 */
export function targetOf(name: TargetName, rounds: number[]): Target {
  const row: TargetRow | undefined = SPEED_TABLE.find((each) => each.name === name);
  if (row === undefined) throw new Error(`no row '${name}' has a target`);
  return { label: row.label, unit: row.unit, judged: row.judged, rounds, ...row.bound };
}
