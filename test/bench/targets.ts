/**
 * The rows that have a target of speed, in the order of the report: a row's name, its order and its bound stand in one
 * place. Of a row whose target is not a ratio, the suite says what is compared with the bound.
 */
import { type Bound, type SpeedRow, type Target, targetOf as target } from '../../src/tools/bench/row.js';

function ratio<Name extends string>(name: Name, bound: Bound): SpeedRow & { name: Name } {
  const suite = name.slice(0, name.indexOf('-'));
  return { name, suite, label: 'ratio', unit: '', judged: 'median', bound };
}

export const SPEED_TABLE = [
  ratio('stream-cpu-8192', { atMost: 0.85, stretch: 0.7 }),
  ratio('stream-cpu-256', { atMost: 0.8 }),
  { ...ratio('stream-throughput', { atLeast: 0.3 }), label: 'best against best' },
  { ...ratio('stream-rss-fast', { atMost: 16 }), label: 'growth', unit: ' MiB', judged: 'max' },
  { ...ratio('stream-rss-slow', { atMost: 32 }), label: 'growth', unit: ' MiB', judged: 'max' },
  { ...ratio('stream-first-message', { atMost: 1.5 }), label: 'ratio of medians' },
  { ...ratio('stream-first-message-time', { atMost: 5 }), label: 'time', unit: ' ms' },
  { ...ratio('stream-loop-delay', { atMost: 25 }), label: 'p99', unit: ' ms' },
  ratio('reflink-delta-lists', { atMost: 0.02 }),
  ratio('reflink-delta-chain', { atMost: 0.1 }),
  ratio('reflink-delta-hot', { atMost: 0.5 }),
  ratio('reflink-delta-direct', { atMost: 1.15 }),
  ratio('reflink-list-cpu', { atMost: 1.2 }),
  ratio('reflink-delta-btrfs', { atMost: 0.25 }),
  ratio('stall-btrfs', { atMost: 0.1 }),
  ratio('lifecycle-mount', { atMost: 1.3, stretch: 1.15 }),
  ratio('lifecycle-mount-neighbours', { atMost: 1.4 }),
  ratio('lifecycle-restart', { atMost: 1.5 }),
  ratio('lifecycle-start', { atMost: 1.5 }),
  ratio('io-random-write', { atLeast: 0.8 }),
  ratio('lifecycle-probe', { atMost: 1.2 }),
  ratio('backup-full', { atLeast: 0.7 }),
  ratio('backup-full-plain', { atMost: 1.15 }),
  ratio('backup-full-half', { atMost: 0.7 }),
  ratio('backup-full-zstd', { atMost: 1.15 }),
  ratio('backup-incremental', { atMost: 0.05 }),
  ratio('backup-incremental-blocks', { atMost: 1.3 }),
  ratio('backup-incremental-length', { atMost: 1.5 }),
  ratio('backup-incremental-length-zstd', { atMost: 1 }),
  ratio('transfer-whole', { atLeast: 0.8 }),
  { ...ratio('transfer-delta', { atMost: 0.03 }), label: 'ratio without 0.3 s' },
  ratio('transfer-delta-bytes', { atMost: 1.1 }),
  { ...ratio('transfer-delta-blocks', { atMost: 0.1 }), label: 'ratio without 0.3 s' },
  ratio('transfer-delta-blocks-bytes', { atMost: 1.5 }),
  { ...ratio('transfer-calls-target', { atMost: 1.3 }), label: 'ratio of medians' },
  { ...ratio('transfer-lists-target', { atMost: 1.3 }), label: 'ratio of medians' },
  { ...ratio('transfer-calls-source', { atMost: 1.3 }), label: 'ratio of medians' },
  { ...ratio('transfer-lists-source', { atMost: 1.3 }), label: 'ratio of medians' },
  { ...ratio('transfer-rss-target', { atMost: 10 }), label: 'growth', unit: ' MiB', judged: 'max' },
  { ...ratio('transfer-rss-source', { atMost: 10 }), label: 'growth', unit: ' MiB', judged: 'max' },
  { ...ratio('transfer-memory', { atMost: 60 }), label: 'both', unit: ' MiB', judged: 'max' },
  ratio('stream-cpu-router', { atMost: 0.5 }),
] as const;

/** @param rounds what is compared with the bound; empty if it was not measured */
export function targetOf(name: (typeof SPEED_TABLE)[number]['name'], rounds: number[]): Target {
  const row = SPEED_TABLE.find((each) => each.name === name) as SpeedRow;
  return target(row, rounds);
}
