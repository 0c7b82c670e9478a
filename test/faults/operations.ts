/**
 * The table of operations whose steps are killed and failed: how each is prepared, what is called, and what is
 * promised afterwards.
 */
import assert from 'node:assert/strict';
import { existsSync, rmSync, statfsSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Contents } from '../support/contents.js';
import { assertSound } from '../support/metadata-check.js';
import type { HeldGroup, HeldVolume, VolumeSpec } from '../support/orchestrator.js';
import { SnapshotImage } from '../support/snapshot-image.js';
import type { Attempt, Operation } from './faults.js';
import { emptyContents, type Scene, SIZES, specOf, type VolumeKind } from './scene.js';

// Volumes

export function createVolume(kind: VolumeKind): Operation {
  return {
    name: `CreateVolume ${kind}`,
    prepare: async (scene) => creation(scene, kind, {}, emptyContents(kind)),
  };
}

/** From a snapshot of a resident. */
export function restoreVolume(kind: VolumeKind): Operation {
  return {
    name: `CreateVolume ${kind} from a snapshot`,
    prepare: async (scene) => {
      const { volume, contents } = scene.resident(kind);
      const snapshotId = await scene.snapshot(volume);
      const attempt = await creation(scene, kind, { snapshotId }, contents.copy());
      const undo = async (answer: unknown): Promise<void> => {
        await attempt.undo(answer);
        await scene.deleteSnapshot(snapshotId);
      };
      return { ...attempt, undo };
    },
  };
}

/** Of a resident, while it is written to. */
export function cloneVolume(kind: VolumeKind): Operation {
  return {
    name: `CreateVolume ${kind} from a volume`,
    prepare: async (scene) => {
      const { volume, contents } = scene.resident(kind);
      return creation(scene, kind, { volumeId: volume.id }, contents.copy());
    },
  };
}

async function creation(
  scene: Scene,
  kind: VolumeKind,
  source: VolumeSpec,
  contents: Contents,
): Promise<Attempt> {
  const { orchestrator } = scene;
  const name = scene.name('created');
  return {
    makes: 1,
    call: () => orchestrator.create(name, { ...specOf(kind), ...source }),
    check: async (answer) => {
      const volume = answer as HeldVolume;
      scene.ledger.add(volume.id);
      assert.equal(volume.sizeBytes, specOf(kind).sizeBytes);
      await scene.verifyUnused(volume, contents);
    },
    undo: (answer) => scene.delete(answer as HeldVolume),
  };
}

export function deleteVolume(kind: VolumeKind): Operation {
  return {
    name: `DeleteVolume ${kind}`,
    prepare: async (scene) => {
      const volume = await scene.volume(kind);
      await scene.orchestrator.bringUp(volume);
      await scene.orchestrator.takeDown(volume);
      return {
        removes: [volume.id],
        call: () => scene.orchestrator.delete(volume),
        undo: async () => scene.ledger.remove(volume.id),
      };
    },
  };
}

/** Of a volume in use, whose file system is grown then; ext4 when it is staged the next time. */
export function expandVolume(kind: VolumeKind): Operation {
  return {
    name: `ControllerExpandVolume ${kind}`,
    prepare: async (scene) => {
      const used = await useVolume(scene, kind);
      const [, sizeBytes] = SIZES[kind];
      return {
        call: () => scene.orchestrator.expand(used.volume, sizeBytes),
        check: async (answer) => {
          assert.equal(answer, sizeBytes);
          used.contents.grow(sizeBytes);
          if (kind !== 'ext4') await scene.orchestrator.nodeExpand(used.volume);
          await used.contents.verify(used.volume.targetPath);
        },
        undo: () => used.end(),
      };
    },
  };
}

export function nodeExpandVolume(kind: VolumeKind): Operation {
  return {
    name: `NodeExpandVolume ${kind}`,
    prepare: async (scene) => {
      const used = await useVolume(scene, kind);
      const [before, sizeBytes] = SIZES[kind];
      await scene.orchestrator.expand(used.volume, sizeBytes);
      used.contents.grow(sizeBytes);
      const capacity = capacityOf(used.volume);
      return {
        call: () => scene.orchestrator.nodeExpand(used.volume),
        check: async () => {
          await used.contents.verify(used.volume.targetPath);
          if (kind === 'block') return;
          const grownBy = capacityOf(used.volume) - capacity;
          assert.ok(grownBy > (sizeBytes - before) / 2, `grew by ${grownBy} bytes`);
        },
        undo: () => used.end(),
      };
    },
  };
}

export function modifyVolume(kind: VolumeKind): Operation {
  return {
    name: `ControllerModifyVolume ${kind}`,
    prepare: async (scene) => {
      const used = await useVolume(scene, kind);
      return {
        call: () => scene.orchestrator.modify(used.volume, { readAheadKiB: '256' }),
        undo: () => used.end(),
      };
    },
  };
}

export const CONTROLLER_PUBLISH: Operation = {
  name: 'ControllerPublishVolume',
  prepare: async (scene) => {
    const volume = await scene.volume('block');
    return {
      call: () => scene.orchestrator.controllerPublish(volume),
      undo: async () => {
        await scene.orchestrator.controllerUnpublish(volume);
        await scene.delete(volume);
      },
    };
  },
};

export const CONTROLLER_UNPUBLISH: Operation = {
  name: 'ControllerUnpublishVolume',
  prepare: async (scene) => {
    const volume = await scene.volume('block');
    await scene.orchestrator.controllerPublish(volume);
    return {
      call: () => scene.orchestrator.controllerUnpublish(volume),
      // Refused while it is published.
      undo: () => scene.delete(volume),
    };
  },
};

// The node

export function stageVolume(kind: VolumeKind): Operation {
  return {
    name: `NodeStageVolume ${kind}`,
    prepare: async (scene) => {
      const volume = await scene.volume(kind);
      return {
        call: () => scene.orchestrator.stage(volume),
        check: async () => {
          const target = await scene.orchestrator.publish(volume);
          await emptyContents(kind).work(target, scene.random);
          await scene.orchestrator.unpublish(volume);
        },
        undo: async () => {
          await scene.orchestrator.unstage(volume);
          await scene.delete(volume);
        },
      };
    },
  };
}

/** Larger than its source: it gets an id of its own where it needs one, and is grown. */
export function stageCopy(kind: VolumeKind): Operation {
  return {
    name: `NodeStageVolume ${kind}, a larger copy`,
    prepare: async (scene) => {
      const { volume: source, contents, end } = await useVolume(scene, kind);
      const snapshotId = await scene.snapshot(source);
      const [, sizeBytes] = SIZES[kind];
      const volume = await scene.volume(kind, { snapshotId, sizeBytes });
      const sourceCapacity = capacityOf(source);
      return {
        call: () => scene.orchestrator.stage(volume),
        check: async () => {
          await contents.verify(await scene.orchestrator.publish(volume));
          assert.ok(capacityOf(volume) > sourceCapacity, 'it was not grown');
          await scene.orchestrator.unpublish(volume);
        },
        undo: async () => {
          await scene.orchestrator.unstage(volume);
          await scene.delete(volume);
          await scene.deleteSnapshot(snapshotId);
          await end();
        },
      };
    },
  };
}

export function publishVolume(kind: VolumeKind): Operation {
  return {
    name: `NodePublishVolume ${kind}`,
    prepare: async (scene) => {
      const volume = await scene.volume(kind);
      await scene.orchestrator.stage(volume);
      return {
        call: () => scene.orchestrator.publish(volume),
        check: () => emptyContents(kind).work(volume.targetPath, scene.random),
        undo: async () => {
          await scene.orchestrator.takeDown(volume);
          await scene.delete(volume);
        },
      };
    },
  };
}

export function unpublishVolume(kind: VolumeKind): Operation {
  return {
    name: `NodeUnpublishVolume ${kind}`,
    prepare: async (scene) => {
      const { volume, contents } = await useVolume(scene, kind);
      return {
        call: () => scene.orchestrator.unpublish(volume),
        check: async () => {
          await contents.verify(await scene.orchestrator.publish(volume));
          await scene.orchestrator.takeDown(volume);
        },
        undo: () => scene.delete(volume),
      };
    },
  };
}

export function unstageVolume(kind: VolumeKind): Operation {
  return {
    name: `NodeUnstageVolume ${kind}`,
    prepare: async (scene) => {
      const { volume, contents } = await useVolume(scene, kind);
      await scene.orchestrator.unpublish(volume);
      return {
        call: () => scene.orchestrator.unstage(volume),
        check: () => scene.verifyUnused(volume, contents),
        undo: () => scene.delete(volume),
      };
    },
  };
}

interface UsedVolume {
  volume: HeldVolume;
  contents: Contents;
  /** Takes it down and deletes it. */
  end(): Promise<void>;
}

async function useVolume(scene: Scene, kind: VolumeKind): Promise<UsedVolume> {
  const volume = await scene.volume(kind);
  const contents = emptyContents(kind);
  await contents.work(await scene.orchestrator.bringUp(volume), scene.random);
  const end = async (): Promise<void> => {
    await scene.orchestrator.takeDown(volume);
    await scene.delete(volume);
  };
  return { volume, contents, end };
}

/** What the file system in the volume can hold. */
function capacityOf({ targetPath }: HeldVolume): number {
  const { blocks, bsize } = statfsSync(targetPath);
  return blocks * bsize;
}

// Snapshots

/** The guardian holds all file systems of the call frozen then. */
const WHILE_FROZEN = 'FICLONE <pool>/snapshots/<snap>.tmp #1';

/** Of a resident, which is mounted, or whose device is open to its user. */
export function createSnapshot(kind: VolumeKind, mainStep = WHILE_FROZEN): Operation {
  return {
    name: `CreateSnapshot ${kind} in use`,
    mainStep,
    prepare: async (scene) => {
      const resident = scene.resident(kind);
      return snapshotting(scene, resident.volume, resident.contents);
    },
  };
}

/** Of a volume that nobody uses. */
export function createIdleSnapshot(kind: VolumeKind): Operation {
  return {
    name: `CreateSnapshot ${kind}`,
    prepare: async (scene) => {
      const { volume, contents, end } = await useVolume(scene, kind);
      await scene.orchestrator.takeDown(volume);
      const attempt = await snapshotting(scene, volume, contents);
      const undo = async (answer: unknown): Promise<void> => {
        await attempt.undo(answer);
        await end();
      };
      return { ...attempt, undo };
    },
  };
}

async function snapshotting(
  scene: Scene,
  volume: HeldVolume,
  contents: Contents,
): Promise<Attempt> {
  const name = scene.name('snapshot');
  const base = await scene.snapshot(volume);
  const before = imageOf(scene, base, volume);
  if (scene.residents.some((resident) => resident.volume === volume)) {
    await contents.work(volume.targetPath, scene.random);
  }
  return {
    makes: 1,
    call: () => scene.orchestrator.snapshot(volume, name),
    check: async (answer) => {
      const id = String(answer);
      scene.ledger.add(id);
      const after = imageOf(scene, id, volume);
      const zeros = SnapshotImage.zeros(volume.sizeBytes);
      assertSound(zeros, after, await scene.client.allocated(id), 'allocated list');
      assertSound(before, after, await scene.client.delta(base, id), 'delta');
      const restored = await scene.volume(kindOf(volume), { snapshotId: id });
      await scene.verifyUnused(restored, contents);
      await scene.delete(restored);
    },
    undo: async (answer) => {
      await scene.deleteSnapshot(String(answer));
      await scene.deleteSnapshot(base);
    },
  };
}

function imageOf(scene: Scene, snapshotId: string, { sizeBytes }: HeldVolume): SnapshotImage {
  return SnapshotImage.read(join(scene.poolPath, 'snapshots', snapshotId), sizeBytes);
}

function kindOf({ capability }: HeldVolume): VolumeKind {
  return capability['mount'] === undefined ? 'block' : capability['mount'].fs_type;
}

export const DELETE_SNAPSHOT: Operation = {
  name: 'DeleteSnapshot',
  prepare: async (scene) => {
    const id = await scene.snapshot(scene.resident('block').volume);
    return {
      removes: [id],
      call: () => scene.orchestrator.deleteSnapshot(id),
      undo: async () => scene.ledger.remove(id),
    };
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
      check: async (answer) => scene.ledger.add(...(answer as HeldGroup).snapshotIds),
      undo: (answer) => deleteGroup(scene, answer as HeldGroup),
    };
  },
};

export const DELETE_GROUP: Operation = {
  name: 'DeleteVolumeGroupSnapshot',
  prepare: async (scene) => {
    const volumes = scene.residents.map(({ volume }) => volume);
    const group = await scene.orchestrator.groupSnapshot(volumes, scene.name('group'));
    scene.ledger.add(...group.snapshotIds);
    return {
      removes: group.snapshotIds,
      call: () => scene.orchestrator.deleteGroup(group),
      undo: async () => scene.ledger.remove(...group.snapshotIds),
    };
  },
};

async function deleteGroup(scene: Scene, group: HeldGroup): Promise<void> {
  await scene.orchestrator.deleteGroup(group);
  scene.ledger.remove(...group.snapshotIds);
}

// Change lists and retained bases, where they are on

/** A list is made in the background after a snapshot, and after a request that found none. */
export const CHANGE_LIST: Operation = {
  name: 'the change list of a new snapshot',
  prepare: async (scene) => {
    const history = await History.make(scene, 1);
    const name = scene.name('snapshot');
    await history.write();
    return {
      makes: 1,
      call: async () => {
        const id = await scene.orchestrator.snapshot(history.volume, name);
        await history.listMade(history.snapshots.at(-1) as string, id);
        return id;
      },
      check: async (answer) => {
        history.keep(String(answer));
        await history.checkDeltas();
      },
      undo: () => history.end(),
    };
  },
};

/** Its list to the next snapshot is kept, and joined to what older bases have. */
export function deleteBase(older: number): Operation {
  return {
    name: `DeleteSnapshot of a base${older === 0 ? '' : ' whose list is joined'}`,
    // A base is given up where a step of retaining it fails.
    onlyKills: true,
    prepare: async (scene) => {
      const history = await History.make(scene, older + 2);
      for (let index = 0; index < older; index += 1) await history.retain(0);
      const id = history.snapshots[older] as string;
      return {
        removes: [id],
        call: () => scene.orchestrator.deleteSnapshot(id),
        check: async () => {
          scene.ledger.remove(id);
          history.retained.add(id);
          await history.checkDeltas();
        },
        undo: () => history.end(),
      };
    },
  };
}

/** Its blocks are kept until the next snapshot is taken. */
export const DELETE_LAST_SNAPSHOT: Operation = {
  name: 'DeleteSnapshot of the last one',
  // The same.
  onlyKills: true,
  prepare: async (scene) => {
    const history = await History.make(scene, 1);
    const id = history.snapshots[0] as string;
    return {
      removes: [id],
      call: () => scene.orchestrator.deleteSnapshot(id),
      check: async () => {
        scene.ledger.remove(id);
        history.retained.add(id);
        await history.write();
        await history.cut();
        await history.checkDeltas();
      },
      undo: () => history.end(),
    };
  },
};

export const DELETE_VOLUME_WITH_BASES: Operation = {
  name: 'DeleteVolume with retained bases',
  prepare: async (scene) => {
    const history = await History.make(scene, 2);
    await history.retain(0);
    await history.retain(1);
    await scene.orchestrator.takeDown(history.volume);
    return {
      removes: [history.volume.id],
      call: () => scene.orchestrator.delete(history.volume),
      undo: async () => {
        scene.ledger.remove(history.volume.id);
        // A base that could not be dropped stays until the next deletion.
        await scene.delete(await scene.volume('block'));
      },
    };
  },
};

/** A volume in use with snapshots whose bytes are known. */
class History {
  readonly snapshots: string[] = [];
  /** Those of them that were deleted and are bases still. */
  readonly retained = new Set<string>();
  readonly #images = new Map<string, SnapshotImage>();

  private constructor(
    private readonly scene: Scene,
    private readonly used: UsedVolume,
  ) {}

  static async make(scene: Scene, snapshots: number): Promise<History> {
    const history = new History(scene, await useVolume(scene, 'block'));
    for (let index = 0; index < snapshots; index += 1) await history.cut();
    return history;
  }

  get volume(): HeldVolume {
    return this.used.volume;
  }

  async write(): Promise<void> {
    await this.used.contents.work(this.volume.targetPath, this.scene.random);
  }

  /** After a write; resolves when the list from the one before is made. */
  async cut(): Promise<void> {
    await this.write();
    const before = this.snapshots.at(-1);
    const id = await this.scene.orchestrator.snapshot(this.volume, this.scene.name('snapshot'));
    this.keep(id);
    if (before !== undefined) await this.listMade(before, id);
  }

  keep(id: string): void {
    this.scene.ledger.add(id);
    this.snapshots.push(id);
    this.#images.set(id, imageOf(this.scene, id, this.volume));
  }

  async retain(index: number): Promise<void> {
    const id = this.snapshots[index] as string;
    await this.scene.deleteSnapshot(id);
    this.retained.add(id);
  }

  /** Asks for it again: the request of a plugin that was killed is forgotten. */
  async listMade(base: string, target: string): Promise<void> {
    if (this.retained.has(base)) return;
    const file = join(this.scene.poolPath, 'lists', `${target}.delta`);
    const deadline = Date.now() + LIST_TIMEOUT_MS;
    for (; !existsSync(file); await delay(20)) {
      assert.ok(Date.now() < deadline, `${file} is not made`);
      await this.scene.client.delta(base, target);
    }
  }

  /** From every snapshot, also a deleted one, to every later one that exists. */
  async checkDeltas(): Promise<void> {
    for (const [index, base] of this.snapshots.entries()) {
      for (const target of this.snapshots.slice(index + 1)) {
        if (this.retained.has(target)) continue;
        const delta = await this.scene.client.delta(base, target);
        assertSound(this.#image(base), this.#image(target), delta, `${base} to ${target}`);
      }
    }
  }

  async end(): Promise<void> {
    for (const id of this.snapshots) {
      if (!this.retained.has(id)) await this.scene.deleteSnapshot(id);
    }
    await this.used.end();
  }

  #image(id: string): SnapshotImage {
    return this.#images.get(id) as SnapshotImage;
  }
}

const LIST_TIMEOUT_MS = 120_000;

// Starts

/** The plugin was killed, and has nothing to do but to start. */
export const START: Operation = {
  name: 'a start after a kill',
  isStart: true,
  onlyKills: true,
  prepare: async (scene) => {
    await scene.kill();
    return { call: () => startIfDead(scene), undo: async () => undefined };
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
      return {
        ...(attempt.makes === undefined ? {} : { makes: attempt.makes }),
        ...(attempt.removes === undefined ? {} : { removes: attempt.removes }),
        call: () => startIfDead(scene),
        check: async () => {
          const answer = await attempt.call();
          await attempt.check?.(answer);
          await attempt.undo(answer);
        },
        undo: async () => undefined,
      };
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
    const name = scene.name('state').replace(' ', '-');
    scene.useState(name);
    return {
      call: () => startIfDead(scene),
      check: async () => {
        const volume = await scene.volume('block');
        await scene.verifyUnused(volume, emptyContents('block'));
        await scene.delete(volume);
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
