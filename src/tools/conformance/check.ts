/**
 * Defines a check and how it reports its result: it returns (passed), throws ConformanceFailure (failed) or throws
 * CheckSkipped (not applicable to this driver). Knows no RPC.
 */

import type { Random } from '../random.js';
import type { Advertised, Need } from './advertised.js';
import type { Driver } from './judged-driver.js';
import type { SuiteOptions } from './options.js';
import type { SharedVolumes } from './shared-volumes.js';
import type { Volumes } from './volumes.js';

export interface Check {
  /** Stable, because scripts select checks by id. */
  readonly id: string;
  /** The part of the specification, as "service: RPC or heading". */
  readonly section: string;
  /** The number of the rule in the project's own list of rules; for engineers. */
  readonly rule: string;
  readonly title: string;
  /**
   * 'must' if the specification requires the behaviour. 'should' if the specification recommends it, or leaves it open
   * and callers depend on it. Both fail a run. A user who does not need the behaviour skips the check by its id.
   */
  readonly level: 'must' | 'should';
  readonly needs: readonly Need[];
  /** How many times as long as others the check may take; 1 if left out. */
  readonly timeouts?: number;
  run(context: CheckContext): Promise<void>;
}

/** A check as its file lists it. */
interface Listed extends Omit<Check, 'section' | 'level' | 'needs'> {
  /** The section of the list if left out. */
  readonly section?: string;
  /** 'must' if left out. */
  readonly level?: Check['level'];
  /** What the check needs besides the needs of all checks of the list. */
  readonly also?: readonly Need[];
}

/** The needs of checks that read lists of snapshots. */
export const OF_LISTS = ['metadata', 'snapshots', 'volumes', 'publish'] as const;

export function checksOf(needs: readonly Need[], section: string, list: readonly Listed[]): readonly Check[] {
  return list.map(({ also = [], ...check }) => ({
    section,
    level: 'must',
    ...check,
    needs: [...needs, ...also],
  }));
}

export interface CheckContext {
  readonly options: SuiteOptions;
  readonly driver: Driver;
  readonly advertised: Advertised;
  /** Creates objects for this check; they are deleted after it. */
  readonly volumes: Volumes;
  /** Volumes and snapshots that many checks read and none may change. */
  readonly shared: SharedVolumes;
  /** Seeded by the run's seed and the check's id, so that a check does the same alone and in a full run. */
  readonly random: Random;
  /** Aborted when the check times out. */
  readonly signal: AbortSignal;
  figure(name: string, value: number, unit: string): void;
  /** Tells readers of the report something useful that fails nothing. A repeated text appears once. */
  note(text: string): void;
}

/** A measured value that does not affect the result. */
export interface Figure {
  readonly name: string;
  readonly value: number;
  readonly unit: string;
}
