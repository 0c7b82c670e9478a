/** What a run found, as data. How it is shown is the business of the report-*.ts files. */
import type { Figure } from './check.js';

export type Result = 'passed' | 'failed' | 'skipped';

export interface CheckResult {
  readonly id: string;
  readonly section: string;
  readonly rule: string;
  readonly title: string;
  readonly level: 'must' | 'should';
  readonly result: Result;
  /** Why it failed or was skipped. */
  readonly detail: string | null;
  readonly notes: readonly string[];
  readonly figures: readonly Figure[];
  readonly seconds: number;
}

export interface Report {
  /** As GetPluginInfo tells it; empty if it does not. */
  readonly driver: { readonly name: string; readonly vendorVersion: string };
  /** Gives the same writes again. */
  readonly seed: number;
  readonly startedAt: Date;
  readonly seconds: number;
  readonly results: readonly CheckResult[];
}

export function countOf(report: Report, result: Result): number {
  return report.results.filter((entry) => entry.result === result).length;
}
