/** Compares what a pool holds with what the catalogue has on record. Both the start and the commands use this comparison. */
import type { ListedSnapshot, PoolObject } from '../backends/backend.js';
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
  const rest = new Map(held.map(({ id, sizeBytes }) => [id, sizeBytes]));
  const missing = recorded.flatMap(({ id, sizeBytes: recordedBytes }): Difference[] => {
    const heldBytes = rest.get(id);
    if (!rest.delete(id)) return [{ kind: 'lost', id }];
    const isRight = heldBytes === undefined || heldBytes === recordedBytes;
    return isRight ? [] : [{ kind: 'resized', id, heldBytes, recordedBytes }];
  });
  const unknown = [...rest.keys()].filter((id) => !isKnown(id)).map((id): Difference => ({ kind: 'unknown', id }));
  return [...missing, ...unknown];
}

export function inWords(pool: string, difference: Difference): string {
  const where = `pool '${pool}'`;
  const { kind, id } = difference;
  if (kind === 'lost') return `${where} has lost ${id}`;
  if (kind === 'unknown') return `${where} holds ${id}, which the catalogue does not know`;
  const { heldBytes, recordedBytes } = difference;
  return `${where}: ${id} has ${heldBytes} bytes and should have ${recordedBytes}`;
}
