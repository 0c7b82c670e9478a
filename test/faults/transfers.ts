/** Operations that pull snapshots of another node, and that serve snapshots to one. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { StatusName } from '../../src/base/errors.js';
import { catalogueContents } from '../../src/driver/catalogue/contents.js';
import { specOf } from '../support/contents.js';
import type { Message } from '../support/csi-client.js';
import { eventually } from '../support/eventually.js';
import { isNightly } from '../support/nightly.js';
import { statusOf } from '../support/refusal.js';
import { copyFiles, KEPT_COPY, snapshotFiles } from '../support/snapshot-files.js';
import { type Failure, failuresOf, type Operation } from './faults.js';
import type { Neighbour } from './neighbour.js';
import type { Scene } from './scene.js';
import { callersOf, flyUntilEnded, REFUSED_SECONDS, TOLD } from './stalls.js';

/** The neighbour of a scene. */
type NeighbourOf = (scene: Scene) => Neighbour;

/** Longer than a replica that is not the newest of its volume, or a snapshot for a clone, stays unused. */
const UNUSED_SECONDS = 3660;

const transferring = (of: NeighbourOf): Pick<Operation, 'recover' | 'failuresAt'> => ({
  failuresAt: (scene, step, steps) => {
    // A list or a key that cannot be removed stays until the next start. Its transfer has ended.
    const failures = step.startsWith('unlink <state>/transfers/') ? [] : failuresOf(scene, step, steps, ALSO);
    // An ioctl that only marks the device, and cannot block.
    const isInstant = step.startsWith('LOOP_CLR_FD ');
    return isNightly && !isInstant ? [...failures, held(scene, step)] : failures;
  },
  recover: async (scene) => {
    await scene.kill();
    await scene.start();
    await of(scene).reaches('scene');
  },
});

/** What CreateVolume answers if a node could not fetch a piece, or could not be reached. */
const ALSO: readonly StatusName[] = ['ABORTED', 'UNAVAILABLE'];

/** The step waits for longer than anybody does. Others are served meanwhile, and the pull goes on afterwards. */
function held(scene: Scene, step: string): Failure {
  let others: Promise<void> = Promise.resolve();
  const serveOthers = async (): Promise<void> => {
    for (const [, ask] of callersOf(scene)) {
      const answer = ask();
      await flyUntilEnded(scene, 'another caller', answer);
      assert.ok(TOLD.includes(await statusOf(answer)), `another caller is told ${await statusOf(answer)}`);
    }
  };
  const until = async (): Promise<void> => {
    others = serveOthers();
    await others.catch(() => undefined);
  };
  const judge = async (call: Promise<unknown>): Promise<void> => {
    await others;
    const status = await statusOf(call);
    assert.ok([...TOLD, ...ALSO].includes(status), `answered ${status}`);
    assert.ok(scene.isRunning, 'it has ended');
    scene.steps.putForward(REFUSED_SECONDS);
  };
  return { what: 'held', fault: { step, does: 'wait', until }, judge };
}

const fileIn = (scene: Scene, name: string): string => join(scene.poolPath, 'snapshots', name);

/** A volume of the scene from a snapshot of its neighbour, which is pulled whole, or as what changed since an earlier one. */
export function pullSnapshot(of: NeighbourOf, { hasBase }: { hasBase: boolean }): Operation {
  return {
    name: `CreateVolume from a snapshot of another node, pulled ${hasBase ? 'from a base' : 'whole'}`,
    ...transferring(of),
    prepare: async (scene) => {
      const neighbour = of(scene);
      const { orchestrator } = neighbour;
      const { volume: source, contents } = await neighbour.used('block', scene.random);
      if (hasBase) {
        await pulled(scene, neighbour, await orchestrator.snapshot(source));
        await contents.work(source.targetPath, scene.random);
      }
      const snapshotId = await orchestrator.snapshot(source);
      const wanted = contents.copy();
      const name = scene.name('pulled');
      const spec = { ...specOf('block'), snapshotId };
      return {
        makes: 1,
        call: () => neighbour.make('scene', name, spec),
        check: async (answer) => {
          const volume = scene.keep(scene.orchestrator.hold(name, answer as Message, spec.capability));
          await scene.verifyUnused(volume, wanted);
          assert.ok(existsSync(fileIn(scene, `${snapshotId}.replica`)), 'the replica stays');
        },
        undo: async () => {
          await orchestrator.deleteSnapshot(snapshotId);
          await orchestrator.remove(source);
        },
      };
    },
  };
}

/** A replica of the snapshot, and no volume from it. */
async function pulled(scene: Scene, neighbour: Neighbour, snapshotId: string): Promise<void> {
  const name = scene.name('base');
  const spec = { ...specOf('block'), snapshotId };
  const volume = scene.orchestrator.hold(name, await neighbour.make('scene', name, spec), spec.capability);
  await scene.orchestrator.delete(volume);
}

/** Which replicas have rows. */
async function rowsIn(scene: Scene): Promise<string[]> {
  const { replicas } = await catalogueContents(scene.workspace.path('plugin', 'catalogue.sqlite'));
  return replicas.map(({ snapshotId }) => snapshotId);
}

/** A replica that is not the newest of its volume goes an hour after its last use. */
export function removeReplica(of: NeighbourOf): Operation {
  return {
    name: 'the end of a replica',
    ...transferring(of),
    prepare: async (scene) => {
      const neighbour = of(scene);
      const { orchestrator } = neighbour;
      const { volume: source } = await neighbour.used('block', scene.random);
      const snapshots = [await orchestrator.snapshot(source), await orchestrator.snapshot(source)];
      for (const snapshot of snapshots) await pulled(scene, neighbour, snapshot);
      const [older = ''] = snapshots;
      return {
        call: async () => {
          scene.steps.putForward(UNUSED_SECONDS);
          // Its row goes last.
          const isOver = async (): Promise<boolean> => !scene.isRunning || !(await rowsIn(scene)).includes(older);
          await eventually('the older replica goes', isOver);
        },
        check: () => pulled(scene, neighbour, older),
        undo: async () => {
          for (const snapshot of snapshots) await orchestrator.deleteSnapshot(snapshot);
          await orchestrator.remove(source);
        },
      };
    },
  };
}

/** A volume of the neighbour from a snapshot of the scene, which serves it whole, or as what changed. */
export function serveSnapshot(of: NeighbourOf, { hasBase }: { hasBase: boolean }): Operation {
  return {
    name: `a snapshot is served to another node, ${hasBase ? 'from a base' : 'whole'}`,
    ...transferring(of),
    prepare: async (scene) => {
      const neighbour = of(scene);
      const { volume, contents } = hasBase ? scene.resident('block') : await scene.used('block');
      if (hasBase) {
        await served(scene, neighbour, { snapshotId: await scene.snapshot(volume) });
        await contents.work(volume.targetPath, scene.random);
      }
      return serving(scene, neighbour, { snapshotId: await scene.snapshot(volume) }, contents.copy());
    },
  };
}

/** A volume of the neighbour that is a clone of one of the scene, in use. */
export function serveClone(of: NeighbourOf): Operation {
  return {
    name: 'a volume is served to another node for a clone',
    ...transferring(of),
    prepare: async (scene) => {
      const { volume, contents } = scene.resident('block');
      const attempt = await serving(scene, of(scene), { volumeId: volume.id }, contents.copy());
      return {
        ...attempt,
        hides: 1,
        undo: async (answer) => {
          await attempt.undo(answer);
          scene.steps.putForward(UNUSED_SECONDS);
          await eventually(
            'the snapshot for the clone goes',
            () => snapshotFiles(join(scene.poolPath, 'snapshots')).length === 0,
          );
        },
      };
    },
  };
}

/** A volume of the neighbour from that source, deleted again. */
async function served(scene: Scene, neighbour: Neighbour, source: { snapshotId: string }): Promise<void> {
  const name = scene.name('base');
  const spec = { ...specOf('block'), ...source };
  const volume = await neighbour.make('neighbour', name, spec);
  await neighbour.orchestrator.delete(neighbour.orchestrator.hold(name, volume, spec.capability));
}

/** What the scene removes after its transfer has ended, which nobody waits for, is one of its steps. */
async function untilServed(scene: Scene): Promise<void> {
  const directory = scene.workspace.path('plugin', 'transfers');
  await eventually('nothing is served any more', () => !scene.isRunning || readdirSync(directory).length === 0);
}

async function serving(
  scene: Scene,
  neighbour: Neighbour,
  source: { snapshotId: string } | { volumeId: string },
  contents: ReturnType<Scene['resident']>['contents'],
) {
  const { orchestrator } = neighbour;
  const name = scene.name('served');
  const spec = { ...specOf('block'), ...source };
  const held = (answer: unknown) => orchestrator.hold(name, answer as Message, spec.capability);
  const ask = () => neighbour.make('neighbour', name, spec);
  return {
    call: async () => {
      const answer = await ask();
      await untilServed(scene);
      return answer;
    },
    ask,
    check: async (answer: unknown) => {
      const volume = held(answer);
      await contents.verify(await orchestrator.bringUp(volume));
      await orchestrator.takeDown(volume);
    },
    undo: (answer: unknown) => orchestrator.delete(held(answer)),
  };
}

/** The scene keeps a copy of a snapshot of its neighbour. */
export function keepCopy(of: NeighbourOf): Operation {
  return {
    name: 'a copy of a snapshot of another node is kept',
    ...transferring(of),
    prepare: async (scene) => {
      const neighbour = of(scene);
      const { volume: source } = await neighbour.used('block', scene.random);
      const name = scene.name('copied');
      return {
        call: () => neighbour.copied(source.id, name, () => scene.isRunning),
        check: async (answer) => assert.deepEqual(copyFiles(scene.poolPath, String(answer)), KEPT_COPY),
        undo: async (answer) => {
          await neighbour.deleteCopied(String(answer), scene.poolPath, () => true);
          await neighbour.orchestrator.remove(source);
        },
      };
    },
  };
}

/** The scene ends its copy of a snapshot of its neighbour, which is deleted. */
export function endCopy(of: NeighbourOf): Operation {
  return {
    name: 'a copy of a snapshot of another node ends',
    ...transferring(of),
    prepare: async (scene) => {
      const neighbour = of(scene);
      const { volume: source } = await neighbour.used('block', scene.random);
      const snapshotId = await neighbour.copied(source.id, scene.name('copied'), () => scene.isRunning);
      return {
        call: () => neighbour.deleteCopied(snapshotId, scene.poolPath, () => scene.isRunning),
        check: async () => assert.deepEqual(copyFiles(scene.poolPath, snapshotId), []),
        undo: () => neighbour.orchestrator.remove(source),
      };
    },
  };
}

/** The neighbour keeps a copy of a snapshot of the scene. */
export function giveCopy(of: NeighbourOf): Operation {
  return {
    name: 'a snapshot is taken with a copy on another node',
    ...transferring(of),
    prepare: async (scene) => {
      const neighbour = of(scene);
      const { volume } = scene.resident('block');
      const name = scene.name('copied');
      return {
        makes: 1,
        call: async () => {
          const id = await neighbour.copied(volume.id, name, () => scene.isRunning);
          await untilServed(scene);
          return id;
        },
        check: async (answer) => {
          scene.objects.add(String(answer));
          assert.deepEqual(copyFiles(neighbour.poolPath, String(answer)), KEPT_COPY);
        },
        undo: async (answer) => {
          await neighbour.deleteCopied(String(answer), neighbour.poolPath, () => true);
          scene.objects.remove(String(answer));
        },
      };
    },
  };
}
