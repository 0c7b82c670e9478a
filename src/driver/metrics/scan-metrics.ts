/** Counts what lists of changed ranges contain. Reads the sums of running scans when it is collected. */
import { Counter, type CounterConfiguration, type Registry } from 'prom-client';
import type { ScanKind, ScanObserver, ScanSums } from '../metadata/scan-observer.js';
import type { ListKind, ListProblem } from '../volumes/change-list-maker.js';

type SumName = keyof ScanSums;

interface KindTotals {
  resumed: number;
  /** Sums of the scans that have ended. */
  ended: Record<SumName, number>;
  open: Set<ScanSums>;
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
      help: 'stored change lists that could not be made, or that a scan refused',
      labelNames: ['kind', 'problem'],
      registers: [registry],
    });
    for (const kind of ['allocated', 'delta']) {
      for (const problem of ['not made', 'refused']) this.#problems.inc({ kind, problem }, 0);
    }
    const counter = (
      options: Pick<CounterConfiguration<'kind'>, 'name' | 'help'>,
      read: (totals: KindTotals) => number,
    ): void => {
      const all = this.#totals;
      new Counter({
        ...options,
        labelNames: ['kind'],
        registers: [registry],
        collect() {
          this.reset();
          for (const [kind, totals] of Object.entries(all)) this.inc({ kind }, read(totals));
        },
      });
    };
    const sum = (name: string, of: SumName, help: string): void =>
      counter({ name, help }, (totals) => sumOf(totals, of));
    counter(
      {
        name: 'blockdelta_scans_resumed_total',
        help: 'lists that were requested with a starting_offset',
      },
      ({ resumed }) => resumed,
    );
    sum('blockdelta_scan_entries_total', 'entries', 'ranges in lists');
    sum('blockdelta_scan_entry_bytes_total', 'entryBytes', 'sizes of those ranges');
    sum('blockdelta_scan_chunks_total', 'chunks', 'chunks that scans were read in');
    sum('blockdelta_scan_extents_total', 'extents', 'extents read from the maps of snapshots');
    sum(
      'blockdelta_scan_stored_lists_total',
      'storedLists',
      'stored change lists that answered in place of the maps of snapshots',
    );
    sum(
      'blockdelta_scan_rescans_total',
      'rescans',
      'windows that were scanned again because extents may have moved',
    );
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
    totals.open.add(sums);
    if (isResumed) totals.resumed += 1;
  }

  scanEnded(kind: ScanKind, sums: ScanSums): void {
    const { open, ended } = this.#totals[kind];
    if (!open.delete(sums)) return;
    for (const name of Object.keys(ended) as SumName[]) ended[name] += Number(sums[name]);
  }
}

function noTotals(): KindTotals {
  const ended = {
    entries: 0,
    entryBytes: 0,
    chunks: 0,
    extents: 0,
    rescans: 0,
    unprovedBytes: 0,
    storedLists: 0,
  };
  return { resumed: 0, ended, open: new Set() };
}

function sumOf({ ended, open }: KindTotals, name: SumName): number {
  let sum = ended[name];
  for (const sums of open) sum += Number(sums[name]);
  return sum;
}
