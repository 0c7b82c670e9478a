/** Deviations from the correct driver: what one may change, and the forms that nearly all of them have. */
import type { Entry } from './disk.js';
import type { MetadataSteps, Query } from './metadata.js';
import type { Message, Refusal, Rpc } from './refusal.js';
import type { FakeOptions, State } from './state.js';

/** What a driver does differently. Everything left out behaves correctly. */
export interface Deviation extends FakeOptions {
  /** An RPC in place of the correct one. */
  rpc?: (name: string, correct: Rpc, state: State) => Rpc;
  metadata?: (correct: MetadataSteps, state: State) => Partial<MetadataSteps>;
  /** RPCs that are not served. */
  unserved?: readonly string[];
  /** Changes the status of every refusal. */
  refuse?: (correct: Refusal) => Refusal;
}

export interface Defect extends Deviation {
  /** Checks that may fail as well, because the defect affects them, too. */
  mayAlsoFail?: readonly string[];
  /** The timeout of a check, for drivers that hang. */
  timeoutMs?: number;
  /** Of the runs that must catch it; several where one could be lucky. Default: one. */
  seeds?: readonly number[];
}

/**
 * By the checks that must fail, and by what completes "a driver that ...". A real driver that does so is named in
 * brackets.
 */
export type Defects = Readonly<Record<string, Readonly<Record<string, Defect>>>>;

/** An RPC made anew, given the correct one. */
export function instead(rpc: string, make: (correct: Rpc, state: State) => Rpc): Deviation {
  return { rpc: (name, correct, state) => (name === rpc ? make(correct, state) : correct) };
}

/** What the steps that make a list return. */
interface Results {
  read: Query;
  blocks: readonly number[];
  entries: Entry[];
  from: Entry[];
  messages: Message[];
}
type Step = keyof Results;
type Input<S> = S extends 'read' ? Message : Query;
type Change<In, Out> = (from: In, state: State) => Out | Promise<Out>;

const STEPS: readonly string[] = ['read', 'blocks', 'entries', 'from', 'messages'];

/** A step or an RPC that gets another query or request. */
export function before<S extends Step>(step: S, change: (from: Input<S>, state: State) => Input<S>): Deviation;
export function before(rpc: string, change: Change<Message, Message>): Deviation;
export function before(name: string, change: Change<never, unknown>): Deviation {
  if (!STEPS.includes(name)) {
    return instead(name, (correct, state) => async (request) => {
      return correct((await change(request as never, state)) as Message);
    });
  }
  return inStep(name, (correct, state, all) => correct(...all.slice(0, -1), change(all.at(-1) as never, state)));
}

/** A step or an RPC whose result is changed; it gets the query or the request, too. */
export function after<S extends Step>(
  step: S,
  change: (result: Results[S], from: Input<S>, state: State) => ReturnType<MetadataSteps[S]>,
): Deviation;
export function after(
  rpc: string,
  change: (answer: Message, request: Message, state: State) => Message | Promise<Message>,
): Deviation;
export function after(name: string, change: (result: never, from: never, state: State) => unknown): Deviation {
  if (!STEPS.includes(name)) {
    return instead(name, (correct, state) => async (request) => {
      return (await change((await correct(request)) as never, request as never, state)) as Message;
    });
  }
  return inStep(name, (correct, state, all) => {
    return change(correct(...all) as never, all.at(-1) as never, state);
  });
}

type AnyStep = (...all: unknown[]) => unknown;

function inStep(name: string, run: (correct: AnyStep, state: State, all: unknown[]) => unknown): Deviation {
  return {
    metadata: (correct, state) => ({
      [name]: (...all: unknown[]) => run(correct[name as Step] as unknown as AnyStep, state, all),
    }),
  };
}

/** An RPC whose answer has other fields. */
export function answering(rpc: string, fields: Message): Deviation {
  return after(rpc, (answer) => ({ ...answer, ...fields }));
}
