/** Counts what lists of changed ranges contain. A collection reads the sums of running scans. */
import { Counter, type Registry } from 'prom-client';
import { RunningSums, readCounter } from '../../server/metrics/running-sums.js';
import type { ScanKind, ScanObserver, ScanSums } from '../metadata/scan-observer.js';
import type { ListKind, ListProblem } from '../volumes/change-list-maker.js';

interface KindTotals {
  resumed: number;
  sums: RunningSums<keyof ScanSums>;
}

export class ScanMetrics implements ScanObserver {
  readonly #totals: Readonly<Record<ScanKind, KindTotals>> = {
    allocated: noTotals(),
    delta: noTotals(),
  };

  readonly #problems: Counter<'kind' | 'problem'>;

  constructor(registry: Registry) {
    this.#problems = new Counter({
      name: 'blockdelta_change_list_problems_total',
      help: 'change lists that could not be made, or that a scan refused',
      labelNames: ['kind', 'problem'],
      registers: [registry],
    });
    for (const kind of ['allocated', 'delta']) {
      for (const problem of ['not made', 'refused']) this.#problems.inc({ kind, problem }, 0);
    }
    const counter = (name: string, help: string, read: (totals: KindTotals) => number): void =>
      readCounter(registry, { name, help, labelNames: ['kind'] }, () =>
        Object.entries(this.#totals).map(([kind, totals]) => [{ kind }, read(totals)] as const),
      );
    const sum = (name: string, of: keyof ScanSums, help: string): void =>
      counter(name, help, ({ sums }) => sums.total(of));
    counter(
      'blockdelta_scans_resumed_total',
      'lists that were requested with a starting_offset',
      ({ resumed }) => resumed,
    );
    sum('blockdelta_scan_entries_total', 'entries', 'ranges in lists');
    sum('blockdelta_scan_entry_bytes_total', 'entryBytes', 'sizes of those ranges');
    sum('blockdelta_scan_chunks_total', 'chunks', 'chunks that scans consisted of');
    sum('blockdelta_scan_extents_total', 'extents', 'extents read from the maps of snapshots');
    sum(
      'blockdelta_scan_stored_lists_total',
      'storedLists',
      'stored change lists that scans read instead of the maps of snapshots',
    );
    sum('blockdelta_scan_rescans_total', 'rescans', 'windows that were scanned again because extents may have moved');
    sum(
      'blockdelta_scan_unproved_bytes_total',
      'unprovedBytes',
      'bytes reported as changed only because extents kept moving',
    );
  }

  listProblem(kind: ListKind, problem: ListProblem): void {
    this.#problems.inc({ kind, problem });
  }

  scanStarted(kind: ScanKind, sums: ScanSums, isResumed: boolean): void {
    const totals = this.#totals[kind];
    totals.sums.begin(sums);
    if (isResumed) totals.resumed += 1;
  }

  scanEnded(kind: ScanKind, sums: ScanSums): void {
    this.#totals[kind].sums.end(sums);
  }
}

function noTotals(): KindTotals {
  const names = ['entries', 'entryBytes', 'chunks', 'extents', 'rescans', 'unprovedBytes'] as const;
  return { resumed: 0, sums: new RunningSums([...names, 'storedLists']) };
}
