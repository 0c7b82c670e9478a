/**
 * Changes of a thin pool during which a process may die, with the pool's objects before and after. After a
 * death the pool holds one or the other, never anything in between.
 */
import assert from 'node:assert/strict';
import type { Backend, SnapshotMember } from '../../src/backends/backend.js';
import { newSnapshotId, newVolumeId } from '../../src/domain/identifiers.js';
import { TEST_NODE_KEY } from '../support/records.js';
import { BLOCK_BYTES, TaggedBlocks } from '../support/tagged-blocks.js';

export const BLOCKS = 16;
export const VOLUME_BYTES = BigInt(BLOCKS * BLOCK_BYTES);

export const newVolume = (): string => newVolumeId(TEST_NODE_KEY);
export const newSnapshot = (): string => newSnapshotId(TEST_NODE_KEY);

export type Contents = Map<string, TaggedBlocks>;

/** What a pool holds, by ids. */
export class PoolModel {
  constructor(
    readonly volumes: Contents = new Map(),
    readonly snapshots: Contents = new Map(),
  ) {}

  copy(): PoolModel {
    return new PoolModel(new Map(this.volumes), new Map(this.snapshots));
  }

  volume(id: string): TaggedBlocks {
    const found = this.volumes.get(id);
    assert.ok(found !== undefined, `the model has no volume ${id}`);
    return found;
  }

  get ids(): string[] {
    return [...this.volumes.keys(), ...this.snapshots.keys()].sort();
  }
}

export interface Change {
  /** Done to the end. */
  act(backend: Backend): Promise<unknown>;
  /** As the plugin does with what a kill left unfinished: takes back what was to be made. */
  undo?(backend: Backend): Promise<unknown>;
  /** What the pool holds once it is done. */
  after: PoolModel;
}

/** The volume that changes are about: attached and written to; and one that is not attached. */
export interface Cast {
  attached: string;
  detached: string;
  snapshot: string;
}

/** Prepares a change of what the pool holds now. */
export type MakeChange = (backend: Backend, model: PoolModel, cast: Cast) => Promise<Change>;

/** Attached and written to, for this change alone. */
async function anotherVolume(backend: Backend, model: PoolModel) {
  const id = newVolume();
  await backend.createVolume(id, VOLUME_BYTES);
  const content = TaggedBlocks.zeros(BLOCKS);
  await content.write((await backend.attach(id, { readOnly: false })).devicePath, 3, 77);
  model.volumes.set(id, content);
  return { id, content };
}

export const CHANGES: Readonly<Record<string, MakeChange>> = {
  'making a volume': async (_, model) => {
    const id = newVolume();
    const after = model.copy();
    after.volumes.set(id, TaggedBlocks.zeros(BLOCKS));
    return {
      act: (backend) => backend.createVolume(id, VOLUME_BYTES),
      undo: (backend) => backend.deleteVolume(id),
      after,
    };
  },
  'cutting two volumes': async (_, model, { attached, detached }) => {
    const after = model.copy();
    const members: SnapshotMember[] = [attached, detached].map((volumeId) => ({
      volumeId,
      snapshotId: newSnapshot(),
    }));
    for (const { volumeId, snapshotId } of members) {
      after.snapshots.set(snapshotId, model.volume(volumeId).copy());
    }
    const undo = (backend: Backend) => backend.abandonSnapshots(members);
    return { act: (backend) => backend.createSnapshots(members), undo, after };
  },
  'restoring a snapshot': async (_, model, { snapshot }) => {
    const id = newVolume();
    const after = model.copy();
    const content = model.snapshots.get(snapshot) as TaggedBlocks;
    after.volumes.set(id, content.copy());
    return {
      act: (backend) => backend.restoreVolume(id, snapshot, VOLUME_BYTES),
      undo: (backend) => backend.deleteVolume(id),
      after,
    };
  },
  'cloning a volume in use': async (_, model, { attached }) => {
    const id = newVolume();
    const after = model.copy();
    after.volumes.set(id, model.volume(attached).copy());
    return {
      act: (backend) => backend.cloneVolume(id, attached, VOLUME_BYTES),
      undo: (backend) => backend.abandonClone(id, attached),
      after,
    };
  },
  'deleting a volume that is attached': async (backend, model) => {
    const after = model.copy();
    const { id } = await anotherVolume(backend, model);
    await backend.markInitialized([id]);
    return { act: (next) => next.deleteVolume(id), after };
  },
  'keeping a snapshot as a base, and deleting it': async (backend, model, { attached }) => {
    const snapshotId = newSnapshot();
    await backend.createSnapshots([{ volumeId: attached, snapshotId }]);
    const after = model.copy();
    model.snapshots.set(snapshotId, model.volume(attached).copy());
    const act = async (next: Backend) => {
      await next.retainBase(snapshotId, null);
      await next.deleteSnapshot(snapshotId);
    };
    return { act, after };
  },
  'expanding a volume in use': async (backend, model) => {
    const { id, content } = await anotherVolume(backend, model);
    const after = model.copy();
    after.volumes.set(id, content.copy(2 * BLOCKS));
    return { act: (next) => next.expandVolume(id, 2n * VOLUME_BYTES), after };
  },
  'attaching a volume': async (_, model, { detached }) => ({
    act: (backend) => backend.attach(detached, { readOnly: false }),
    undo: (backend) => backend.detach(detached),
    after: model,
  }),
  'detaching a volume': async (backend, model, { detached }) => {
    await backend.attach(detached, { readOnly: false });
    return { act: (next) => next.detach(detached), after: model };
  },
};
