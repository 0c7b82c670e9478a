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
import { kindOf, type Steps } from './steps.js';

/** One attempt at an operation, on objects of its own. */
export interface Attempt {
  /** Takes the steps. Can be repeated, and answers the same each time. */
  call(): Promise<unknown>;
  /** Objects that the call makes, or removes, all or none of them. */
  makes?: number;
  removes?: readonly string[];
  /** The process has died, and was not started again. */
  whileDead?(): Promise<void>;
  /** What the answer promises. */
  check?(answer: unknown): Promise<void>;
  /** Takes away what the attempt has made. Afterwards everything is as it was before. */
  undo(answer: unknown): Promise<void>;
}

export interface Operation {
  name: string;
  prepare(scene: Scene): Promise<Attempt>;
  /** Of the process that takes the steps: the plugin, unless the operation says otherwise. */
  steps?(scene: Scene): Steps;
  /** Starts again what died in the call: the plugin, unless the operation says otherwise. */
  recover?(scene: Scene): Promise<void>;
}

const stepsOf = (scene: Scene, { steps }: Operation): Steps => steps?.(scene) ?? scene.steps;

/** Which faults are run. */
export interface Selection {
  kills(operation: string, steps: readonly string[]): readonly string[];
  failures(operation: string, steps: readonly string[]): readonly string[];
}

export const EVERYTHING: Selection = {
  kills: (_operation, steps) => steps,
  failures: (_operation, steps) => steps,
};

/**
 * Each kind of step once, in the first operation that has it, and in every operation the one step at least
 * that its name selects.
 */
export function eachKindOnce(kind = kindOf): Selection {
  const killed = new Set<string>();
  const failed = new Set<string>();
  return {
    kills: (operation, steps) => firstOfKinds(killed, kind, operation, steps),
    failures: (operation, steps) => firstOfKinds(failed, kind, operation, steps),
  };
}

function firstOfKinds(
  seen: Set<string>,
  kind: (step: string) => string,
  operation: string,
  steps: readonly string[],
): string[] {
  const fresh = steps.filter((step) => {
    const isFresh = !seen.has(kind(step));
    seen.add(kind(step));
    return isFresh;
  });
  const sum = [...operation].reduce((total, letter) => total + letter.charCodeAt(0), 0);
  const one = steps[sum % steps.length];
  return fresh.length > 0 || one === undefined ? fresh : [one];
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
export function errnoOf(step: string): string | null {
  const call = step.split(' ')[0] ?? '';
  return ERRNO_OF_CALL[call] ?? null;
}

const ERRNO_OF_CALL: Readonly<Record<string, string>> = {
  ...{ write: 'ENOSPC', ftruncate: 'ENOSPC', fallocate: 'ENOSPC', FICLONE: 'ENOSPC' },
  ...{ mkdir: 'ENOSPC', rename: 'ENOSPC', link: 'ENOSPC', setxattr: 'ENOSPC' },
  ...{ fsync: 'EIO', fdatasync: 'EIO', syncfs: 'EIO', BLKFLSBUF: 'EIO' },
  ...{ unlink: 'EIO', rmdir: 'EIO', fchmod: 'EIO', FS_IOC_SETFLAGS: 'EIO' },
  ...{ open: 'EMFILE', fsopen: 'EMFILE', open_tree: 'EMFILE', fsmount: 'EMFILE' },
  ...{ move_mount: 'ENOSPC', umount: 'EBUSY', LOOP_CTL_GET_FREE: 'EINTR' },
  ...{ LOOP_CONFIGURE: 'EBUSY', LOOP_SET_CAPACITY: 'EINTR', BLKROSET: 'EACCES' },
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
 * The documented codes, and OK where the call does not depend on the step. What fails at the catalogue, or at
 * flushing a volume in use, may say what to repair.
 */
function codesOf(step: string, errno: string): readonly StatusName[] {
  const code = CODE_OF[errno];
  const repairable: StatusName[] =
    errno !== 'ENOSPC' && REPAIRABLE.test(step) ? ['FAILED_PRECONDITION'] : [];
  return ['OK', ...repairable, ...(code === undefined ? [] : [code])];
}

const REPAIRABLE = /<state>\/catalogue|^(?:syncfs|BLKFLSBUF) |^fsync <pool>\S*\/volumes\/<vol> /;

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
  const kills = selection.kills(operation.name, steps);
  for (const step of kills) {
    await inContext(`killed before ${step}`, () => killAt(scene, operation, step));
    tally.killed += 1;
  }
  for (const step of selection.failures(operation.name, steps)) {
    const errno = errnoOf(step);
    if (errno === null) continue;
    await inContext(`${errno} at ${step}`, () => failAt(scene, operation, step, errno));
    tally.failed += 1;
  }
  if (kills.length === steps.length) {
    const again = await trace(scene, operation);
    assert.deepEqual([...again].sort(), [...steps].sort(), 'two undisturbed traces differ');
  }
}

/** The names of the steps of an undisturbed call. */
async function trace(scene: Scene, operation: Operation): Promise<readonly string[]> {
  const before = scene.held();
  const attempt = await operation.prepare(scene);
  const steps = stepsOf(scene, operation);
  steps.begin();
  const answer = await untilSettled(() => attempt.call());
  const names = [...steps.names];
  steps.begin();
  // Of what commands keep while they run, nothing has to survive a power cut.
  const lost = operation.steps === undefined ? undurable(names) : [];
  assert.deepEqual(lost, [], 'a power cut after the answer undoes something');
  await conclude(scene, attempt, answer, before);
  return names;
}

async function killAt(scene: Scene, operation: Operation, step: string): Promise<void> {
  const before = scene.held();
  const attempt = await operation.prepare(scene);
  const steps = stepsOf(scene, operation);
  steps.begin({ step, does: 'die' });
  const call = attempt.call();
  const outcome = await Promise.allSettled([call]).then(([settled]) => settled);
  assertReached(steps);
  await attempt.whileDead?.();
  await scene.writesGoThrough();
  steps.begin();
  await (operation.recover?.(scene) ?? restart(scene));
  await scene.ledger.check({ makes: attempt.makes ?? 0, removes: attempt.removes ?? [] });
  const answer = await untilSettled(() => attempt.call());
  if (outcome.status === 'fulfilled') assert.deepEqual(answer, outcome.value, 'repeated');
  await conclude(scene, attempt, answer, before);
}

async function failAt(
  scene: Scene,
  operation: Operation,
  step: string,
  errno: string,
): Promise<void> {
  const before = scene.held();
  const attempt = await operation.prepare(scene);
  const number = constants.errno[errno as keyof typeof constants.errno];
  const steps = stepsOf(scene, operation);
  steps.begin({ step, does: 'fail', errno: number });
  const status = await statusOf(attempt.call());
  assertReached(steps);
  steps.begin();
  await scene.writesGoThrough();
  await scene.ledger.checkListed({ makes: attempt.makes ?? 0, removes: attempt.removes ?? [] });
  const answer = await untilSettled(() => attempt.call());
  await conclude(scene, attempt, answer, before);
  assert.ok(codesOf(step, errno).includes(status), `answered ${status}`);
}

async function conclude(
  scene: Scene,
  attempt: Attempt,
  answer: unknown,
  before: Record<string, string[]>,
): Promise<void> {
  await attempt.check?.(answer);
  await attempt.undo(answer);
  await scene.ledger.check();
  await scene.assertHolds(before);
}

/** The call has ended: a step that has not come by now is none of it. */
function assertReached({ isReached, names }: Steps): void {
  assert.ok(isReached, `the step has not come, but ${names.join('; ')}`);
}

async function restart(scene: Scene): Promise<void> {
  await scene.kill();
  await scene.start();
}

/** Names the fault in what a failed check says. */
async function inContext(what: string, run: () => Promise<void>): Promise<void> {
  try {
    await run();
  } catch (thrown) {
    throw new Error(what, { cause: thrown });
  }
}
