/**
 * The tests of a file of the table: each of its operations on each kind of pool, killed before every step. Steps fail
 * in the first operation that takes them: each step on the first kind of pool, one of each kind of step on the others.
 * In the plain suite, one operation of each kind, in which each call fails once in each tree, on one kind of pool.
 */
import { after, test } from 'node:test';
import type { VolumeKind } from '../support/contents.js';
import { isNightly, oneOfEach } from '../support/nightly.js';
import { MIB } from '../support/orchestrator.js';
import { skipUnlessRoot } from '../support/workspace.js';
import { all, FaultTally, type Operation, one, onePerKind, runOperation, type Selection } from './faults.js';
import { POOL_KINDS, type PoolKind, Scene } from './scene.js';
import { callIn, kindOf, rowOf } from './steps.js';

/** More than the volumes of a scene and of an attempt hold. */
const AMPLE_BYTES = 2 * 1024 * MIB;

export interface FaultTests {
  /** Kinds of volumes that are in use all the time. */
  residents?: readonly VolumeKind[];
  operations: readonly Operation[];
  /** Makes what all operations need, beside the residents. */
  settle?(scene: Scene): Promise<void>;
  /** Settings of the plugin. */
  env?: Record<string, string>;
  /** Makes what the plugin of a scene works with. */
  beside?(label: string): Promise<Companions>;
  /** What the tests prove, before the kind of pool in their titles. */
  title?: string;
  /** What each operation does. */
  feat?: string;
  tally?: FaultTally;
  /** The kinds of pool; the first one in the plain suite. */
  pools?: readonly [PoolKind, ...PoolKind[]];
  /** Which faults are run, if not all or those of the plain suite. */
  selection?: Selection;
}

/** Other processes that a scene works with, which end with it. */
export interface Companions {
  /** Settings of the scene's plugin. */
  env: Record<string, string>;
  /** A program, with its arguments, that executes the plugin. */
  by: readonly string[];
  /** The scene's plugin has started. */
  join(scene: Scene): Promise<void>;
  dispose(): Promise<void>;
}

export function faultTests(label: string, tests: FaultTests): void {
  const { pools = POOL_KINDS, title = 'a pool' } = tests;
  const { feat = 'survives a kill before each step, and a failed step' } = tests;
  const { tally = new FaultTally() } = tests;
  after(() => console.log(`# ${tally}`));
  const operations = oneOfEach(tests.operations, kindOfOperation);
  for (const kind of isNightly ? pools : pools.slice(0, 1)) {
    const failures = onePerKind(!isNightly ? callIn : kind === pools[0] ? rowOf : kindOf);
    const { selection = { kills: isNightly ? all : one, failures } } = tests;
    void test(`${title} on ${kind}`, { skip: skipUnlessRoot }, async (context) => {
      let scene = await settled(label, kind, tests);
      try {
        for (const operation of operations) {
          await context.test(`${operation.name} ${feat}`, async () => {
            try {
              await runOperation(scene, operation, selection, tally);
            } catch (thrown) {
              for (const defect of scene.defects) context.diagnostic(JSON.stringify(defect));
              // What the fault has left says nothing of the next operation.
              await scene.dispose();
              scene = await settled(label, kind, tests);
              throw thrown;
            }
          });
        }
        await scene.verifyResidents();
      } finally {
        await scene.dispose();
      }
    });
  }
}

/** That of operations that differ in the kind of their volume or transfer, or the version that they are called by. */
const kindOfOperation = ({ name }: Operation): string =>
  name.replace(/\b(block|ext4|xfs|btrfs|0\.\d|whole|from a base)\b/g, '*');

async function settled(label: string, kind: PoolKind, tests: FaultTests): Promise<Scene> {
  const { residents = [], env, settle, beside } = tests;
  const companions = await beside?.(`${label}-${kind}`);
  const scene = await Scene.make(`${label}-${kind}`, kind, { ...env, ...companions?.env }, companions?.by);
  if (companions !== undefined) scene.atEnd(() => companions.dispose());
  try {
    await scene.start();
    await companions?.join(scene);
    // What an embedded pool has grown by for one attempt it has in the next one.
    if (kind === 'embedded') await scene.makeAndDelete({ sizeBytes: AMPLE_BYTES });
    for (const resident of residents) await scene.settle(resident);
    await settle?.(scene);
    return scene;
  } catch (thrown) {
    await scene.dispose();
    throw thrown;
  }
}
