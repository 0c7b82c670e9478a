/** One thing that a driver does wrong, and the conformance checks that must catch it. */
import type { Fault } from './driver.js';
import type { MetadataSteps } from './metadata.js';
import type { Rpc } from './refusal.js';
import type { FakeOptions, State } from './state.js';

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

/** A fault of one RPC, given the correct one to build on. */
export function inRpc(name: string, make: (correct: Rpc, state: State) => Rpc): Fault {
  return {
    rpcs: (rpcs, state) => ({ [name]: make((request) => rpcs[name]?.(request) ?? {}, state) }),
  };
}

/** A fault of one of the steps that make a list. */
export function inList<Step extends keyof MetadataSteps>(
  step: Step,
  make: (correct: MetadataSteps, state: State) => MetadataSteps[Step],
): Fault {
  return { metadata: (correct, state) => ({ [step]: make(correct, state) }) };
}
