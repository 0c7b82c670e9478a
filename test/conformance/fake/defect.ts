/** One thing that a driver does wrong, and the conformance checks that must catch it. */
import type { Fault } from './driver.js';
import type { FakeOptions } from './state.js';

export interface Defect {
  name: string;
  /** Completes "a driver that ...". A real driver that does so is named in brackets. */
  does: string;
  /** Checks that must fail. */
  caughtBy: readonly string[];
  /** Checks that may fail as well, because the defect affects them, too. */
  mayAlsoFail?: readonly string[];
  /** The timeout of a check, for drivers that hang. */
  timeoutMs?: number;
  /** Of the runs that must catch it; several where one could be lucky. Default: one. */
  seeds?: readonly number[];
  options?: FakeOptions;
  fault: Fault;
}
