/** Compares what a pool holds with what the catalogue has on record. Both the start and the commands use this comparison. */
import type { ListedSnapshot, PoolContents, PoolObject } from '../backends/backend.js';
import type { AsyncCatalogue } from '../catalogue/catalogue-client.js';
import type { RecordedObjects, SnapshotRecord, VolumeRecord } from '../catalogue/records.js';

export type Difference =
  /** On record, and not in the pool. */
  | { readonly kind: 'lost'; readonly id: string }
  | {
      readonly kind: 'resized';
      readonly id: string;
      readonly heldBytes: bigint;
      readonly recordedBytes: bigint;
    }
  /** In the pool, without any record: the catalogue has lost rows. */
  | { readonly kind: 'unknown'; readonly id: string };

/** What a pool holds, and how that differs from what it has to hold. */
export interface PoolLook {
  contents: PoolContents;
  volumes: readonly Difference[];
  snapshots: readonly Difference[];
}

export function poolLook(contents: PoolContents, recorded: Awaited<ReturnType<AsyncCatalogue['objectsIn']>>): PoolLook {
  const isKnown = (): boolean => false;
  return {
    contents,
    volumes: compareObjects(contents.volumes, recordedObjects(recorded.volumes), isKnown),
    snapshots: compareObjects(contents.snapshots, recordedObjects(recorded.snapshots), isKnown),
  };
}

export function recordedObjects({ ids, sizesBytes }: RecordedObjects): PoolObject[] {
  return ids.map((id, index) => ({ id, sizeBytes: sizesBytes[index] ?? 0n }));
}

export const volumeObject = ({ volumeId, sizeBytes }: VolumeRecord): PoolObject => ({
  id: volumeId,
  sizeBytes,
});
export const snapshotObject = ({ snapshotId, sizeBytes }: SnapshotRecord): PoolObject => ({
  id: snapshotId,
  sizeBytes,
});

/**
 * @param held an object whose size is unknown counts as one of the right size
 * @param recorded what the pool has to hold
 * @param isKnown whether the catalogue has a record of an object, finished or not
 */
export function compareObjects(
  held: readonly ListedSnapshot[],
  recorded: readonly PoolObject[],
  isKnown: (id: string) => boolean,
): Difference[] {
  const rest = new Map<string, ListedSnapshot>();
  for (const object of held) rest.set(object.id, object);
  const differences: Difference[] = [];
  for (const { id, sizeBytes: recordedBytes } of recorded) {
    const heldBytes = rest.get(id)?.sizeBytes;
    if (!rest.delete(id)) differences.push({ kind: 'lost', id });
    else if (heldBytes !== undefined && heldBytes !== recordedBytes) {
      differences.push({ kind: 'resized', id, heldBytes, recordedBytes });
    }
  }
  for (const id of rest.keys()) if (!isKnown(id)) differences.push({ kind: 'unknown', id });
  return differences;
}

export function inWords(pool: string, difference: Difference): string {
  const where = `pool '${pool}'`;
  const { kind, id } = difference;
  if (kind === 'lost') return `${where} has lost ${id}`;
  if (kind === 'unknown') return `${where} holds ${id}, which the catalogue does not know`;
  const { heldBytes, recordedBytes } = difference;
  return `${where}: ${id} has ${heldBytes} bytes and should have ${recordedBytes}`;
}
