/** Small reports of `blockdelta bench`, made by hand. */
import { type Document, reported, SCHEMA } from '../../src/tools/bench/report/document.js';
import { missingSide, type Row, ratios } from '../../src/tools/bench/row.js';
import { targetOf } from '../bench/targets.js';

export function row(name: string, ours: number[], peer: number[], rest: Partial<Row> = {}): Row {
  const sides = {
    ours: { label: 'ours', unit: 'ms', rounds: ours },
    peer: { label: 'peer', unit: 'ms', rounds: peer },
  };
  return { name, measures: `what ${name} measures`, ...sides, target: null, facts: {}, ...rest };
}

/** With the ratio's target of that row of the speed table. */
export function targetRow(name: Parameters<typeof targetOf>[0], ours: number[], peer: number[]): Row {
  const plain = row(name, ours, peer);
  return { ...plain, target: targetOf(name, ratios(plain)) };
}

export function report(rows: readonly Row[], rest: Partial<Document> = {}): Document {
  return {
    schema: SCHEMA,
    machine: {
      date: '2026-11-23T00:00:00.000Z',
      kernel: '6.18.0',
      cpus: 2,
      cpuModel: 'Processor <of tests> & "more"',
      memoryMiB: 4096,
      node: 'v20.20.2',
      blockdelta: '0.1.0',
      temporaryDirectory: '/tmp (ext4 on /dev/vda)',
      loadBefore: '0.10 0.20 0.30',
      loadAfter: '1.10 0.50 0.30',
    },
    seed: 7,
    rounds: 5,
    size: 'full',
    seconds: 12.5,
    suites: [{ name: 'stream', describes: 'the server alone', seconds: 12, failure: null }],
    rows: rows.map(reported),
    curves: [],
    ...rest,
  };
}

/** Every kind of row and a curve. */
export function fullReport(): Document {
  return report(
    [
      targetRow('stream-cpu-8192', [8, 9, 8.5, 8.2, 8.4], [10, 11, 10.5, 10.1, 10.2]),
      targetRow('stream-cpu-256', [12, 13, 12.5, 12.2, 12.4], [10, 11, 10.5, 10.1, 10.2]),
      {
        ...row('stream-throughput', [300, 310, 290, 305, 301], [800, 900, 850, 860, 870]),
        target: targetOf('stream-throughput', [310 / 900]),
        better: 'higher',
      },
      {
        ...row('reflink-delta-btrfs', [], []),
        ours: missingSide('ours', 'ms', 'mkfs.btrfs is not installed: install btrfs-progs'),
        peer: missingSide('peer', 'ms', 'mkfs.btrfs is not installed: install btrfs-progs'),
        target: targetOf('reflink-delta-btrfs', []),
      },
      row('stream-cpu-objects', [1, 2, 3, 4, 5], [10, 20, 30, 40, 50], {
        facts: { entries: 1000 },
        ours: { label: 'a label that is far too long for a chart', unit: 'ms', rounds: [1, 2] },
      }),
    ],
    {
      curves: [
        {
          name: 'stream-extents',
          title: 'Time by <entries>',
          x: 'entries',
          y: 'time (ms)',
          lines: [
            { label: 'ours', points: [1e4, 1e5, 1e6].map((x) => ({ x, rounds: [x / 1e4, x / 9e3] })) },
            { label: 'peer', points: [1e4, 1e5, 1e6].map((x) => ({ x, rounds: [x / 5e3, x / 4e3] })) },
          ],
        },
      ],
    },
  );
}
