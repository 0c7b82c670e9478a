/**
 * What a check is, and how it gives its verdict: by returning (passed), by throwing
 * ConformanceFailure (failed) or CheckSkipped (nothing could be said). Knows no RPC.
 */
import type { Advertised } from './advertised.js';
import type { Driver } from './driver.js';
import type { SuiteOptions } from './options.js';
import type { Random } from './random.js';
import type { CommonVolumes } from './shared-volumes.js';
import type { Volumes } from './volumes.js';

/** What a check cannot do without. The reason for skipping it is found by advertised.ts. */
export type Need =
  | 'volumes'
  | 'list-volumes'
  | 'snapshots'
  | 'list-snapshots'
  | 'get-snapshot'
  | 'clone'
  | 'expand'
  | 'groups'
  | 'metadata'
  | 'publish'
  | 'block'
  | 'mount';

export interface Check {
  /** Stable: scripts select by it. */
  readonly id: string;
  /** Where the specification says it, as "part: RPC or heading". */
  readonly section: string;
  /** Number of the rule in the project's own list of rules; for engineers. */
  readonly rule: string;
  readonly title: string;
  /**
   * 'must': the specification demands it. 'should': it recommends it, or leaves it open and callers
   * depend on it. Both fail a run; a caller that can live without skips it by its id.
   */
  readonly level: 'must' | 'should';
  readonly needs: readonly Need[];
  run(context: CheckContext): Promise<void>;
}

export interface CheckContext {
  readonly options: SuiteOptions;
  readonly driver: Driver;
  readonly advertised: Advertised;
  /** What this check makes, undone after it. */
  readonly volumes: Volumes;
  /** What many checks look at and none may change. */
  readonly common: CommonVolumes;
  /** Seeded by the run's seed and the check's id, so that a check alone does the same as in a run. */
  readonly random: Random;
  /** Aborted when the check has run out of time. */
  readonly signal: AbortSignal;
  figure(name: string, value: number, unit: string): void;
  /** For readers of the report: conforming, but worth knowing. */
  note(text: string): void;
}

/** A measured value that is neither right nor wrong. */
export interface Figure {
  readonly name: string;
  readonly value: number;
  readonly unit: string;
}

/** The driver breaks the rule. */
export class ConformanceFailure extends Error {
  override readonly name = 'ConformanceFailure';
  constructor(
    /** What was done, such as "GetMetadataDelta with max_results 7". */
    readonly subject: string,
    readonly expected: string,
    readonly found: string,
  ) {
    super(`${subject}: expected ${expected}, found ${found}`);
  }
}

/** Nothing can be said about this driver. */
export class CheckSkipped extends Error {
  override readonly name = 'CheckSkipped';
}

/** Throws a ConformanceFailure unless the condition holds. `found` is only called then. */
export function expect(
  condition: boolean,
  subject: string,
  expected: string,
  found: () => string,
): asserts condition {
  if (!condition) throw new ConformanceFailure(subject, expected, found());
}
