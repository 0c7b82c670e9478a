/**
 * The table of operations whose steps are killed and failed: how each is prepared, what is called, and what is
 * promised afterwards.
 */
import assert from 'node:assert/strict';
import { rmSync, statfsSync } from 'node:fs';
import { type Contents, emptyContents, SIZES, specOf, type VolumeKind } from '../support/contents.js';
import { assertSound } from '../support/metadata-check.js';
import { type HeldGroup, type HeldVolume, MIB, type VolumeSpec } from '../support/orchestrator.js';
import { SnapshotImage } from '../support/snapshot-image.js';
import type { Attempt, Operation } from './faults.js';
import type { Resident, Scene } from './scene.js';
import { imageOf, SnapshotChain } from './snapshot-chain.js';

/** An operation on volumes of any kind; `*` in its name is the kind. */
function onKind(
  name: string,
  prepare: (scene: Scene, kind: VolumeKind) => Promise<Attempt>,
): (kind: VolumeKind) => Operation {
  return (kind) => ({ name: name.replace('*', kind), prepare: (scene) => prepare(scene, kind) });
}

// Volumes

export const createVolume = onKind('CreateVolume *', async (scene, kind) =>
  creation(scene, kind, {}, emptyContents(kind)),
);

/** From a snapshot of a resident. */
export const restoreVolume = onKind('CreateVolume * from a snapshot', async (scene, kind) => {
  const { volume, contents } = scene.resident(kind);
  return creation(scene, kind, { snapshotId: await scene.snapshot(volume) }, contents.copy());
});

/** Of a resident, while it is written to. */
export const cloneVolume = onKind('CreateVolume * from a volume', async (scene, kind) => {
  const { volume, contents } = scene.resident(kind);
  return creation(scene, kind, { volumeId: volume.id }, contents.copy());
});

/** In an embedded pool without a reserve, whose image grows for it: it is larger than what is free, each time. */
export const CREATE_WITH_GROWTH: Operation = {
  name: 'CreateVolume with growth of the pool',
  mainStep: 'fallocate <host>/pool.img #1',
  prepare: async (scene) => {
    const name = scene.name('created');
    const { bavail, bsize } = statfsSync(scene.poolPath);
    const sizeBytes = (Math.floor((bavail * bsize) / MIB) + 4) * MIB;
    const spec = { ...specOf('block'), sizeBytes };
    return {
      makes: 1,
      call: () => scene.orchestrator.create(name, spec),
      check: async (answer) => {
        const volume = scene.keep(answer as HeldVolume);
        assert.equal(volume.sizeBytes, sizeBytes);
        assert.ok(statfsSync(scene.poolPath).bavail > bavail, 'the pool has grown');
      },
    };
  },
};

function creation(scene: Scene, kind: VolumeKind, source: VolumeSpec, contents: Contents): Attempt {
  const name = scene.name('created');
  return {
    makes: 1,
    call: () => scene.orchestrator.create(name, { ...specOf(kind), ...source }),
    check: async (answer) => {
      const volume = scene.keep(answer as HeldVolume);
      assert.equal(volume.sizeBytes, specOf(kind).sizeBytes);
      await scene.verifyUnused(volume, contents);
    },
  };
}

export const deleteVolume = onKind('DeleteVolume *', async (scene, kind) => {
  const volume = await scene.volume(kind);
  await scene.orchestrator.bringUp(volume);
  await scene.orchestrator.takeDown(volume);
  return { removes: [volume.id], call: () => scene.orchestrator.delete(volume) };
});

/** Its orchestrator has died before it unstaged it. */
export const deleteStagedVolume = onKind('DeleteVolume * that is staged', async (scene, kind) => {
  const { volume } = await scene.used(kind);
  await scene.orchestrator.unpublish(volume);
  return {
    removes: [volume.id],
    call: () => scene.orchestrator.delete(volume),
    check: () => scene.orchestrator.unstage(volume),
  };
});

/** Of a volume in use, whose file system is grown then; ext4 when it is staged the next time. */
export const expandVolume = onKind('ControllerExpandVolume *', async (scene, kind) => {
  const { volume, contents } = await scene.used(kind);
  const [, sizeBytes] = SIZES[kind];
  return {
    call: () => scene.orchestrator.expand(volume, sizeBytes),
    check: async (answer) => {
      assert.equal(answer, sizeBytes);
      contents.grow(sizeBytes);
      if (kind !== 'ext4') await scene.orchestrator.nodeExpand(volume);
      await contents.verify(volume.targetPath);
    },
  };
});

export const nodeExpandVolume = onKind('NodeExpandVolume *', async (scene, kind) => {
  const { volume, contents } = await scene.used(kind);
  const [before, sizeBytes] = SIZES[kind];
  await scene.orchestrator.expand(volume, sizeBytes);
  contents.grow(sizeBytes);
  const capacity = capacityOf(volume);
  return {
    call: () => scene.orchestrator.nodeExpand(volume),
    check: async () => {
      await contents.verify(volume.targetPath);
      if (kind === 'block') return;
      const grownBy = capacityOf(volume) - capacity;
      assert.ok(grownBy > (sizeBytes - before) / 2, `grew by ${grownBy} bytes`);
    },
  };
});

export const modifyVolume = onKind('ControllerModifyVolume *', async (scene, kind) => {
  const { volume } = await scene.used(kind);
  return { call: () => scene.orchestrator.modify(volume, { readAheadKiB: '256' }) };
});

export const CONTROLLER_PUBLISH: Operation = {
  name: 'ControllerPublishVolume',
  prepare: async (scene) => {
    const volume = await scene.volume('block');
    return {
      call: () => scene.orchestrator.controllerPublish(volume),
      undo: () => scene.orchestrator.controllerUnpublish(volume),
    };
  },
};

/** Its volume can be deleted then, which is refused while it is published. */
export const CONTROLLER_UNPUBLISH: Operation = {
  name: 'ControllerUnpublishVolume',
  prepare: async (scene) => {
    const volume = await scene.volume('block');
    await scene.orchestrator.controllerPublish(volume);
    return { call: () => scene.orchestrator.controllerUnpublish(volume) };
  },
};

// The node

export const stageVolume = onKind('NodeStageVolume *', async (scene, kind) => {
  const volume = await scene.volume(kind);
  return {
    call: () => scene.orchestrator.stage(volume),
    check: async () => {
      const target = await scene.orchestrator.publish(volume);
      await emptyContents(kind).work(target, scene.random);
    },
  };
});

/** Larger than its source: it gets an id of its own where it needs one, and is grown. */
export const stageCopy = onKind('NodeStageVolume *, a larger copy', async (scene, kind) => {
  const { volume: source, contents } = await scene.used(kind);
  const snapshotId = await scene.snapshot(source);
  const [, sizeBytes] = SIZES[kind];
  const volume = await scene.volume(kind, { snapshotId, sizeBytes });
  const sourceCapacity = capacityOf(source);
  return {
    call: () => scene.orchestrator.stage(volume),
    check: async () => {
      await contents.verify(await scene.orchestrator.publish(volume));
      assert.ok(capacityOf(volume) > sourceCapacity, 'it was not grown');
    },
  };
});

export const publishVolume = onKind('NodePublishVolume *', async (scene, kind) => {
  const volume = await scene.volume(kind);
  await scene.orchestrator.stage(volume);
  return {
    call: () => scene.orchestrator.publish(volume),
    check: () => emptyContents(kind).work(volume.targetPath, scene.random),
  };
});

export const unpublishVolume = onKind('NodeUnpublishVolume *', async (scene, kind) => {
  const { volume, contents } = await scene.used(kind);
  return {
    call: () => scene.orchestrator.unpublish(volume),
    check: async () => contents.verify(await scene.orchestrator.publish(volume)),
  };
});

export const unstageVolume = onKind('NodeUnstageVolume *', async (scene, kind) => {
  const { volume, contents } = await scene.used(kind);
  await scene.orchestrator.unpublish(volume);
  return { call: () => scene.orchestrator.unstage(volume), check: () => scene.verifyUnused(volume, contents) };
});

/** What the file system in the volume can hold. */
function capacityOf({ targetPath }: HeldVolume): number {
  const { blocks, bsize } = statfsSync(targetPath);
  return blocks * bsize;
}

// Snapshots

/** The guardian holds all file systems of the call frozen then. */
export const WHILE_FROZEN = 'FICLONE <pool>/snapshots/<snap>.tmp #1';

/** Of a resident, which is mounted, or whose device is open to its user. */
export function createSnapshot(kind: VolumeKind, mainStep = WHILE_FROZEN): Operation {
  return {
    name: `CreateSnapshot ${kind} in use`,
    mainStep,
    prepare: async (scene) => snapshotting(scene, scene.resident(kind)),
  };
}

/** Of a volume that nobody uses. */
export const createIdleSnapshot = onKind('CreateSnapshot *', async (scene, kind) => {
  const used = await scene.used(kind);
  await scene.orchestrator.takeDown(used.volume);
  return snapshotting(scene, used);
});

async function snapshotting(scene: Scene, source: Resident): Promise<Attempt> {
  const { kind, volume, contents } = source;
  const name = scene.name('snapshot');
  const base = await scene.snapshot(volume);
  const before = imageOf(scene, base, volume);
  if (scene.residents.includes(source)) await contents.work(volume.targetPath, scene.random);
  return {
    makes: 1,
    call: () => scene.orchestrator.snapshot(volume, name),
    check: async (answer) => {
      const id = String(answer);
      scene.objects.add(id);
      const after = imageOf(scene, id, volume);
      const zeros = SnapshotImage.zeros(volume.sizeBytes);
      assertSound(zeros, after, await scene.client.allocated(id), 'allocated list');
      assertSound(before, after, await scene.client.delta(base, id), 'delta');
      await scene.verifyUnused(await scene.volume(kind, { snapshotId: id }), contents);
    },
  };
}

export const DELETE_SNAPSHOT: Operation = {
  name: 'DeleteSnapshot',
  prepare: async (scene) => {
    const id = await scene.snapshot(scene.resident('block').volume);
    return { removes: [id], call: () => scene.orchestrator.deleteSnapshot(id) };
  },
};

/** Of all residents. */
export const CREATE_GROUP: Operation = {
  name: 'CreateVolumeGroupSnapshot',
  mainStep: WHILE_FROZEN,
  prepare: async (scene) => {
    const name = scene.name('group');
    const volumes = scene.residents.map(({ volume }) => volume);
    return {
      makes: volumes.length,
      call: () => scene.orchestrator.groupSnapshot(volumes, name),
      check: async (answer) => scene.objects.add(...(answer as HeldGroup).snapshotIds),
      undo: async (answer) => {
        const group = answer as HeldGroup;
        await scene.orchestrator.deleteGroup(group);
        scene.objects.remove(...group.snapshotIds);
      },
    };
  },
};

export const DELETE_GROUP: Operation = {
  name: 'DeleteVolumeGroupSnapshot',
  prepare: async (scene) => {
    const volumes = scene.residents.map(({ volume }) => volume);
    const group = await scene.orchestrator.groupSnapshot(volumes, scene.name('group'));
    scene.objects.add(...group.snapshotIds);
    return { removes: group.snapshotIds, call: () => scene.orchestrator.deleteGroup(group) };
  },
};

// Change lists and retained bases, where they are on

/** A list is made in the background after a snapshot, and after a request that found none. */
export const CHANGE_LIST: Operation = {
  name: 'the change list of a new snapshot',
  prepare: async (scene) => {
    // The first list of a plugin finds out whether the file system has maps.
    const chain = await SnapshotChain.make(scene, 2);
    const name = scene.name('snapshot');
    const ask = () => scene.orchestrator.snapshot(chain.volume, name);
    await chain.write();
    return {
      makes: 1,
      ask,
      call: async () => {
        const id = await ask();
        await chain.listMade(chain.at(-1), id);
        return id;
      },
      check: async (answer) => {
        chain.keep(String(answer));
        await chain.checkDeltas();
      },
    };
  },
};

/**
 * Its list to the next snapshot is kept, and joined to what older bases have. The last one has none: its blocks are
 * kept until the next snapshot is taken.
 */
export function deleteBase(older: number, isLast = false): Operation {
  const which = ['a base', 'a base whose list is joined'][older];
  return {
    name: `DeleteSnapshot of ${isLast ? 'the last one' : which}`,
    // A base is given up where a step of retaining it fails.
    onlyKills: true,
    prepare: async (scene) => {
      const chain = await SnapshotChain.make(scene, older + (isLast ? 1 : 2));
      for (let index = 0; index < older; index += 1) await chain.retain(0);
      const base = chain.at(older);
      return {
        removes: [base.id],
        call: () => scene.orchestrator.deleteSnapshot(base.id),
        check: async () => {
          base.isDeleted = true;
          if (isLast) await chain.take();
          await chain.checkDeltas();
        },
      };
    },
  };
}

export const DELETE_VOLUME_WITH_BASES: Operation = {
  name: 'DeleteVolume with retained bases',
  prepare: async (scene) => {
    const chain = await SnapshotChain.make(scene, 2);
    await chain.retain(0);
    await chain.retain(1);
    await scene.orchestrator.takeDown(chain.volume);
    return {
      removes: [chain.volume.id],
      call: () => scene.orchestrator.delete(chain.volume),
      // A base that could not be dropped stays until the pool is settled, as at a start.
      undo: async () => {
        await scene.stop();
        await scene.start();
      },
    };
  },
};

// Starts

/** The plugin was killed, and has nothing to do but to start, and to put its last transactions into the catalogue. */
export const START: Operation = {
  name: 'a start after a kill',
  isStart: true,
  onlyKills: true,
  prepare: async (scene) => {
    await scene.makeAndDelete();
    await scene.kill();
    return { call: () => startIfDead(scene) };
  },
};

/** The plugin died before that step of the operation, which the start finishes or takes back. */
export function startAfter(operation: Operation, step: string): Operation {
  return {
    name: `a start after ${operation.name} died before ${step}`,
    isStart: true,
    onlyKills: true,
    prepare: async (scene) => {
      const attempt = await operation.prepare(scene);
      scene.steps.begin({ step, does: 'die' });
      await attempt.call().catch(() => undefined);
      assert.ok(scene.steps.isReached, `${step} has not come`);
      await scene.kill();
      return { ...attempt, call: () => startIfDead(scene), check: async () => attempt.check?.(await attempt.call()) };
    },
  };
}

/** An embedded pool is made with its state. */
export const FIRST_START: Operation = {
  name: 'the first start of an embedded pool',
  isStart: true,
  onlyKills: true,
  prepare: async (scene) => {
    await scene.stop();
    const name = 'first-state';
    scene.useState(name);
    return {
      call: () => startIfDead(scene),
      check: async () => {
        const volume = await scene.volume('block');
        await scene.verifyUnused(volume, emptyContents('block'));
        await scene.removeAllBut([]);
      },
      undo: async () => {
        await scene.stop();
        rmSync(scene.workspace.path(name), { recursive: true });
        scene.useState('plugin');
        await scene.start();
      },
    };
  },
};

async function startIfDead(scene: Scene): Promise<void> {
  if (!scene.isRunning) await scene.start();
}
