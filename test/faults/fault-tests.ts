/**
 * The tests of a file of the table: each of its operations on each kind of pool with a fault at every step, or, in
 * the plain suite, on one kind of pool with each kind of step once.
 */
import { after, test } from 'node:test';
import { skipUnlessRoot } from '../support/workspace.js';
import { EVERYTHING, eachKindOnce, FaultTally, type Operation, runOperation } from './faults.js';
import { POOL_KINDS, type PoolKind, Scene, type VolumeKind } from './scene.js';

export interface FaultTests {
  /** All steps on all kinds of pool; else each kind of step once, on one. */
  isWhole: boolean;
  /** Kinds of volumes that are in use all the time. */
  residents: readonly VolumeKind[];
  operations: readonly Operation[];
  /** Settings of the plugin. */
  env?: Record<string, string>;
  /** The kind of pool in the plain suite. */
  plainPool?: PoolKind;
  /**
   * The steps are those of commands. The kind of pool makes no difference to them, they are killed only, and in the
   * plain suite a call on a directory is one kind of step, whatever the file.
   */
  ofCommands?: boolean;
}

export function faultTests(label: string, tests: FaultTests): void {
  const { isWhole, ofCommands = false, plainPool = 'xfs' } = tests;
  const selected = isWhole ? EVERYTHING : eachKindOnce(ofCommands ? callAndRoot : undefined);
  const selection = ofCommands ? { ...selected, failures: () => [] } : selected;
  const tally = new FaultTally();
  after(() => console.log(`# ${tally}`));
  for (const kind of isWhole && !ofCommands ? POOL_KINDS : [plainPool]) {
    void test(`a pool on ${kind}`, { skip: skipUnlessRoot }, async (context) => {
      let scene = await settled(label, kind, tests);
      try {
        for (const operation of tests.operations) {
          const title = `${operation.name} survives a kill before each step, and a failed step`;
          await context.test(title, async () => {
            try {
              await runOperation(scene, operation, selection, tally);
            } catch (thrown) {
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

/** `unlink <runtime>` of `unlink <runtime>/volume-<id>/record.json #2`. */
const callAndRoot = (step: string): string => step.split('/')[0] ?? step;

async function settled(
  label: string,
  kind: PoolKind,
  { residents, env = {} }: FaultTests,
): Promise<Scene> {
  const scene = await Scene.make(`${label}-${kind}`, kind, { env });
  try {
    await scene.start();
    for (const resident of residents) await scene.settle(resident);
    return scene;
  } catch (thrown) {
    await scene.dispose();
    throw thrown;
  }
}
