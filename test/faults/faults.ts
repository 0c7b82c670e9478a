/**
 * Runs an operation with a fault at each of its steps: its process dies before the step, or the step fails
 * with an errno. Afterwards the process is started again, the call is repeated, and everything that was
 * promised is checked. Knows no RPC; operations.ts has the table.
 *
 * "After step N" is "before step N + 1", so each step is one kill; the end of the last step is the answer.
 */
import assert from 'node:assert/strict';
import { constants } from 'node:os';
import type { StatusName } from '../../src/base/errors.js';
import { untilSettled } from '../support/orchestrator.js';
import { statusOf } from '../support/refusal.js';
import { undurable } from './durability.js';
import type { Scene } from './scene.js';
import { type Fault, kindOf, rowOf, type Steps } from './steps.js';

/** One attempt at an operation, on objects of its own. */
export interface Attempt {
  /** Takes the steps. Can be repeated, and answers the same each time. */
  call(): Promise<unknown>;
  /** What is asked of the plugin, where `call` waits for what it does after its answer. */
  ask?(): Promise<unknown>;
  /** Objects that the call makes, or removes, all or none of them. */
  makes?: number;
  removes?: readonly string[];
  /** How many snapshots it makes that are in no list. */
  hides?: number;
  /** The process has died, and was not started again. */
  whileDead?(): Promise<void>;
  /** What the answer promises. */
  check?(answer: unknown): Promise<void>;
  /** Takes away what the attempt has made beside the volumes and snapshots that are known. */
  undo?(answer: unknown): Promise<void>;
}

export interface Operation {
  name: string;
  prepare(scene: Scene): Promise<Attempt>;
  /** Of the process that takes the steps: the plugin, unless the operation says otherwise. */
  steps?(scene: Scene): Steps;
  /** Starts again what died in the call: the plugin, unless the operation says otherwise. */
  recover?(scene: Scene): Promise<void>;
  /** A start of the plugin, which checkpoints its databases as a part of it. */
  isStart?: boolean;
  /** No step of it fails; the reason stands beside it. */
  onlyKills?: boolean;
  /** How a step can fail, if not as those of the plugin do. */
  failuresAt?(scene: Scene, step: string, steps: readonly string[]): readonly Failure[];
  /** The one step that is killed where one has to do. */
  mainStep?: string;
}

/** What happens at a step that is not the death of its process. */
export interface Failure {
  what: string;
  fault: Fault;
  /** Of the call, which has ended: fails unless it may end so. */
  judge(call: Promise<unknown>): Promise<void>;
}

/** Which steps of an operation get a fault. */
export type Choice = (operation: Operation, steps: readonly string[]) => readonly string[];

/** Which faults are run. */
export interface Selection {
  kills: Choice;
  failures: Choice;
}

export const all: Choice = (_operation, steps) => steps;

/** The main one, or the one that the operation's name selects. */
export const one: Choice = ({ name, mainStep }, steps) => {
  if (mainStep !== undefined) return [mainStep];
  const sum = [...name].reduce((total, letter) => total + letter.charCodeAt(0), 0);
  const index = sum % steps.length;
  return steps.slice(index, index + 1);
};

/** Each kind of step in the first operation that has it; otherwise what `orElse` chooses. */
export function onePerKind(kind = kindOf, orElse: Choice = () => []): Choice {
  const seen = new Set<string>();
  return (operation, steps) => {
    const fresh = steps.filter((step) => seen.size !== seen.add(kind(step)).size);
    return fresh.length > 0 ? fresh : orElse(operation, steps);
  };
}

/** What was done, for the closing line. */
export class FaultTally {
  operations = 0;
  steps = 0;
  killed = 0;
  failed = 0;

  toString(): string {
    const { operations, steps, killed, failed } = this;
    return `${killed} of ${steps} steps of ${operations} operations were killed, ${failed} failed`;
  }
}

/** The errno that a step can really end with: what allocates, what flushes, what opens, what waits. */
const ERRNO_OF_CALL: Readonly<Record<string, string>> = {
  write: 'ENOSPC',
  ftruncate: 'ENOSPC',
  fallocate: 'ENOSPC',
  FICLONE: 'ENOSPC',
  FICLONERANGE: 'ENOSPC',
  BTRFS_IOC_SNAP_CREATE_V2: 'ENOSPC',
  mkdir: 'ENOSPC',
  rename: 'ENOSPC',
  link: 'ENOSPC',
  setxattr: 'ENOSPC',
  fsync: 'EIO',
  fdatasync: 'EIO',
  syncfs: 'EIO',
  BLKFLSBUF: 'EIO',
  unlink: 'EIO',
  rmdir: 'EIO',
  fchmod: 'EIO',
  FS_IOC_SETFLAGS: 'EIO',
  open: 'EMFILE',
  fsopen: 'EMFILE',
  open_tree: 'EMFILE',
  fsmount: 'EMFILE',
  move_mount: 'ENOSPC',
  umount: 'EBUSY',
  LOOP_CTL_GET_FREE: 'EINTR',
  LOOP_CONFIGURE: 'EBUSY',
  LOOP_SET_CAPACITY: 'EINTR',
  BLKROSET: 'EACCES',
};

/** What a call may answer when a step of it has failed so; docs/errors.md. */
const CODE_OF: Readonly<Record<string, StatusName>> = {
  ENOSPC: 'RESOURCE_EXHAUSTED',
  EIO: 'INTERNAL',
  EMFILE: 'INTERNAL',
  EINTR: 'INTERNAL',
  EBUSY: 'FAILED_PRECONDITION',
  EACCES: 'FAILED_PRECONDITION',
};

/**
 * The documented codes, and OK where the call does not depend on the step. What fails at the catalogue, at
 * flushing a volume in use, at a mount or at a path of the orchestrator may say what to repair.
 */
function codesOf(step: string, errno: string): readonly StatusName[] {
  const code = CODE_OF[errno];
  const isRepairable = MOUNTING.test(step) || (errno !== 'ENOSPC' && FLUSHING.test(step));
  return ['OK', ...(isRepairable ? ['FAILED_PRECONDITION' as const] : []), ...(code === undefined ? [] : [code])];
}

const FLUSHING = /<state>\/catalogue|^(?:syncfs|BLKFLSBUF) |^fsync <pool>\S*\/volumes\/<vol> /;
const MOUNTING = /^(?:fsopen|fsmount|open_tree|move_mount|umount) | <(?:work|staging)>\//;

/** Runs the selected faults of one operation. */
export async function runOperation(
  scene: Scene,
  operation: Operation,
  selection: Selection,
  tally: FaultTally,
): Promise<void> {
  const steps = await trace(scene, operation);
  tally.operations += 1;
  tally.steps += steps.length;
  const kills = selection.kills(operation, steps);
  for (const step of kills) {
    const isKilled = await inContext(`killed before ${step}`, () =>
      reached(step, () => killAt(scene, operation, step)),
    );
    if (isKilled) tally.killed += 1;
    else console.log(`# ${operation.name}: ${step} did not come again: ${WHY_NOT}`);
  }
  const failures = operation.onlyKills === true ? [] : selection.failures(operation, steps);
  for (const step of failures) {
    for (const failure of (operation.failuresAt ?? failuresOf)(scene, step, steps)) {
      const hasFailed = await inContext(`${failure.what} at ${step}`, () =>
        reached(step, () => failAt(scene, operation, failure)),
      );
      if (hasFailed) tally.failed += 1;
    }
  }
  if (kills.length === steps.length) {
    const again = await trace(scene, operation);
    const rows = (names: readonly string[]) => {
      const certain = names.map(rowOf).filter((row) => row !== AFTERWARDS && !CLONING.has(row));
      return [...new Set(certain)].sort();
    };
    assert.deepEqual(rows(again), rows(steps), 'two undisturbed traces differ');
  }
}

/** The map that a new list was made from goes when the list is there, which is all that a trace can wait for. */
const AFTERWARDS = 'unlink <pool>/lists/<snap>.map';

/**
 * A file of a thousand extents is cloned in pieces, and each attempt gives the files of residents more of them: from some
 * attempt on they are cloned the other way. Files that always have more are an operation of their own.
 */
const CLONING: ReadonlySet<string> = new Set(
  ['FICLONE', 'FICLONERANGE', 'ftruncate', 'FS_IOC_SETFLAGS'].map((call) => `${call} <pool>/snapshots/<snap>.tmp`),
);

/**
 * Repeats an attempt until the step has come: which of several ways a call takes may depend on how the file system has
 * laid out a file, and on what else runs. How long a row of repetitions is depends on it too: false if the step is
 * beyond the end of each one, or of the way in which a file is no longer cloned.
 */
async function reached(step: string, once: () => Promise<Trace>): Promise<boolean> {
  for (let count = 1; ; count += 1) {
    const { isReached, names } = await once();
    if (isReached) return true;
    const isInRow = !step.endsWith(' #1') && names.includes(`${rowOf(step)} #1`);
    const mayBePassed = isInRow || CLONING.has(rowOf(step));
    if (mayBePassed && count === ATTEMPTS_BEFORE_PASSED) return false;
    assert.ok(count < ATTEMPTS, `the step has not come, but ${names.join('; ')}`);
  }
}

const WHY_NOT = 'the extents of the file, and what else runs, decide whether and how often it comes';
const ATTEMPTS = 6;
const ATTEMPTS_BEFORE_PASSED = 2;

/**
 * How a step of the plugin can fail.
 *
 * @param alsoAnswers what the call may answer as well
 */
export function failuresOf(
  scene: Scene,
  step: string,
  steps: readonly string[],
  alsoAnswers: readonly StatusName[] = [],
): Failure[] {
  const found: Failure[] = [];
  const add = (what: string, fault: Fault, codes: readonly StatusName[]): void => {
    const judge = async (call: Promise<unknown>): Promise<void> => {
      const status = await statusOf(call);
      assert.ok([...codes, ...alsoAnswers].includes(status), `answered ${status}`);
    };
    found.push({ what, fault, judge });
  };
  const errno = ERRNO_OF_CALL[step.split(' ')[0] ?? ''];
  if (errno !== undefined) {
    const number = constants.errno[errno as keyof typeof constants.errno];
    add(errno, { step, does: 'fail', errno: number }, codesOf(step, errno));
  }
  if (step.startsWith('exec ')) {
    add('the program dies', { step, does: 'die alone' }, CODES_OF_DEAD_PROGRAM);
  }
  const spawn = steps.findIndex((name) => name.startsWith('spawn '));
  if (spawn !== -1 && steps.indexOf(step) > spawn) {
    const until = async (): Promise<void> => scene.killGuardian();
    add('the guardian dies', { step, does: 'wait', until }, ['OK', 'ABORTED']);
  }
  return found;
}

/** What a call may answer when a program dies that it runs. */
const CODES_OF_DEAD_PROGRAM: readonly StatusName[] = ['OK', 'INTERNAL', 'FAILED_PRECONDITION'];

/** The names of the steps of an undisturbed call. */
async function trace(scene: Scene, operation: Operation): Promise<readonly string[]> {
  const { names } = await attempt(scene, operation, undefined, async () => undefined);
  // A start that is undone is made again, and of what commands keep while they run nothing has to survive.
  const mayBeUndone = operation.isStart === true || operation.steps !== undefined;
  const lost = mayBeUndone ? [] : undurable(names);
  assert.deepEqual(lost, [], 'a power cut after the answer undoes something');
  return names.filter((name) => !OF_THE_NUMBER.test(name));
}

/**
 * The kernel keeps these settings of a loop device for the next user of its number, so whether a call has to change them
 * depends on who that was: no fault finds them reliably.
 */
const OF_THE_NUMBER = /^(?:open|write) \/sys\/.*<loop>\/queue\//;

function killAt(scene: Scene, operation: Operation, step: string): Promise<Trace> {
  return attempt(scene, operation, { step, does: 'die' }, async ({ whileDead, ...unanswered }) => {
    await whileDead?.();
    await scene.writesGoThrough();
    await (operation.recover?.(scene) ?? restart(scene));
    await scene.objects.check(unanswered);
  });
}

function failAt(scene: Scene, operation: Operation, { fault, judge }: Failure): Promise<Trace> {
  return attempt(scene, operation, fault, async (unanswered, call) => {
    // Nobody answers after a start that failed.
    if (operation.isStart === true) await call;
    await scene.writesGoThrough();
    await scene.objects.checkListed(unanswered);
    await judge(call);
  });
}

/** The steps of a call. */
interface Trace {
  names: readonly string[];
  /** Whether the fault has come. */
  isReached: boolean;
}

/**
 * Prepares an attempt, calls, repeats the call after a fault, and checks what is promised. Resolves to the steps of
 * the first call.
 *
 * @param afterFault with the first call, which has ended
 */
async function attempt(
  scene: Scene,
  operation: Operation,
  fault: Fault | undefined,
  afterFault: (attempt: Attempt, call: Promise<unknown>) => Promise<void>,
): Promise<Trace> {
  const before = scene.held();
  const known = scene.objects.ids;
  const prepared = await operation.prepare(scene);
  const steps = operation.steps?.(scene) ?? scene.steps;
  steps.begin(fault);
  if (operation.isStart === true) steps.allowCheckpoints();
  const call = fault === undefined ? untilSettled(() => prepared.call()) : prepared.call();
  const [outcome] = await Promise.allSettled([call]);
  // A step that has not come by now is none of it.
  const { isReached, names } = steps;
  steps.begin();
  if (isReached) await afterFault(prepared, call);
  const answer = isReached ? await untilSettled(() => prepared.call()) : await call;
  if (isReached && fault?.does === 'die' && outcome.status === 'fulfilled') {
    assert.deepEqual(answer, outcome.value, 'repeated');
  }
  scene.objects.remove(...(prepared.removes ?? []));
  await prepared.check?.(answer);
  await prepared.undo?.(answer);
  await scene.removeAllBut(known);
  await scene.objects.check();
  await scene.assertHolds(before);
  return { names, isReached };
}

async function restart(scene: Scene): Promise<void> {
  await scene.kill();
  await scene.start();
}

/** Names the fault in what a failed check says. */
async function inContext<T>(what: string, run: () => Promise<T>): Promise<T> {
  try {
    return await run();
  } catch (thrown) {
    throw new Error(what, { cause: thrown });
  }
}
