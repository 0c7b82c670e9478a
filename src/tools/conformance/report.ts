/** The results of a run, as data. The report-*.ts files format it. */
import type { Check, Figure } from './check.js';

export type Result = 'passed' | 'failed' | 'skipped';

export interface CheckResult extends Pick<Check, 'id' | 'section' | 'rule' | 'title' | 'level'> {
  readonly result: Result;
  /** Why the check failed or was skipped. */
  readonly detail: string | null;
  readonly notes: readonly string[];
  readonly figures: readonly Figure[];
  readonly seconds: number;
}

export interface Report {
  /** From GetPluginInfo; empty if the call failed or was interrupted. */
  readonly driver: { readonly name: string; readonly vendorVersion: string };
  /** A run with the same seed makes the same writes. */
  readonly seed: number;
  readonly startedAt: Date;
  readonly seconds: number;
  readonly results: readonly CheckResult[];
}

export function countOf(report: Report, result: Result): number {
  return report.results.filter((entry) => entry.result === result).length;
}
