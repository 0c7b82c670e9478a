/** One thing that a driver does wrong, and which check of the conformance suite has to see it. */
import type { Fault } from './driver.js';
import type { FakeOptions } from './state.js';

export interface Defect {
  name: string;
  /** Completes "a driver that ...". A real driver that does so is named in brackets. */
  does: string;
  /** Checks that must fail. */
  caughtBy: readonly string[];
  /** Checks that may fail as well, since the defect shows in what they look at, too. */
  mayAlsoFail?: readonly string[];
  /** How long a check may take: what a hanging driver costs. */
  timeoutMs?: number;
  options?: FakeOptions;
  fault: Fault;
}
