/**
 * Changes of a thin pool during which a process may die, with the pool's objects before and after. After a
 * death the pool holds one or the other, never anything in between.
 */
import assert from 'node:assert/strict';
import type { Backend } from '../../src/driver/backends/backend.js';
import { newSnapshot, newVolume } from '../backend/harness.js';
import { TaggedImage } from '../support/tagged-image.js';
import { BLOCK_BYTES, writeBlock } from './thin-pool-on-disks.js';

export const BLOCKS = 16;
const SIZE = BLOCKS * BLOCK_BYTES;
export const VOLUME_BYTES = BigInt(SIZE);

export const noContent = (): TaggedImage => TaggedImage.zeros(SIZE);

export type Contents = Map<string, TaggedImage>;

/** What a pool holds, by ids. */
export class PoolModel {
  constructor(
    readonly volumes: Contents = new Map(),
    readonly snapshots: Contents = new Map(),
  ) {}

  copy(): PoolModel {
    return new PoolModel(new Map(this.volumes), new Map(this.snapshots));
  }

  withVolume(id: string, content: TaggedImage): PoolModel {
    return new PoolModel(new Map([...this.volumes, [id, content]]), new Map(this.snapshots));
  }

  /** Of a volume or a snapshot. */
  contentOf(id: string): TaggedImage {
    const found = this.volumes.get(id) ?? this.snapshots.get(id);
    assert.ok(found !== undefined, `the model has no ${id}`);
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
  await backend.volumes.create(id, VOLUME_BYTES);
  const { devicePath } = await backend.attachments.attach(id, { readOnly: false });
  const content = noContent();
  await writeBlock(content, devicePath, 3);
  model.volumes.set(id, content);
  return { id, content };
}

export const CHANGES: Readonly<Record<string, MakeChange>> = {
  'making a volume': async (_, model) => {
    const id = newVolume();
    return {
      act: (next) => next.volumes.create(id, VOLUME_BYTES),
      undo: (next) => next.volumes.delete(id),
      after: model.withVolume(id, noContent()),
    };
  },
  'taking snapshots of two volumes': async (_, model, { attached, detached }) => {
    const after = model.copy();
    const members = [attached, detached].map((volumeId) => {
      const snapshotId = newSnapshot();
      after.snapshots.set(snapshotId, model.contentOf(volumeId));
      return { volumeId, snapshotId };
    });
    const undo = async (next: Backend) => {
      for (const { volumeId } of members) await next.volumes.thaw(volumeId);
      for (const { snapshotId } of members) await next.snapshots.delete(snapshotId);
    };
    return { act: (next) => next.snapshots.create(members), undo, after };
  },
  'restoring a snapshot': async (_, model, { snapshot }) => {
    const id = newVolume();
    return {
      act: (next) => next.volumes.create(id, VOLUME_BYTES, { snapshotId: snapshot }),
      undo: (next) => next.volumes.delete(id),
      after: model.withVolume(id, model.contentOf(snapshot)),
    };
  },
  'cloning a volume in use': async (_, model, { attached }) => {
    const id = newVolume();
    return {
      act: (next) => next.volumes.create(id, VOLUME_BYTES, { volumeId: attached }),
      undo: async (next) => {
        await next.volumes.thaw(attached);
        await next.volumes.delete(id);
      },
      after: model.withVolume(id, model.contentOf(attached)),
    };
  },
  'deleting a volume that is attached': async (backend, model) => {
    const after = model.copy();
    const { id } = await anotherVolume(backend, model);
    await backend.marks.set([id]);
    return { act: (next) => next.volumes.delete(id), after };
  },
  'retaining a snapshot as a base, and deleting it': async (backend, model, { attached }) => {
    const snapshotId = newSnapshot();
    await backend.snapshots.create([{ volumeId: attached, snapshotId }]);
    const after = model.copy();
    model.snapshots.set(snapshotId, model.contentOf(attached));
    const act = async (next: Backend) => {
      await next.bases.retain(snapshotId, null);
      await next.snapshots.delete(snapshotId);
    };
    return { act, after };
  },
  'expanding a volume in use': async (backend, model) => {
    const { id, content } = await anotherVolume(backend, model);
    const after = model.withVolume(id, content.copy(2 * SIZE));
    return { act: (next) => next.volumes.expand(id, 2n * VOLUME_BYTES), after };
  },
  'attaching a volume': async (_, model, { detached }) => ({
    act: (next) => next.attachments.attach(detached, { readOnly: false }),
    undo: (next) => next.attachments.detach(detached),
    after: model,
  }),
  'detaching a volume': async (backend, model, { detached }) => {
    await backend.attachments.attach(detached, { readOnly: false });
    return { act: (next) => next.attachments.detach(detached), after: model };
  },
};
