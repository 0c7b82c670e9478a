/** Compares what a pool holds with what the catalogue has on record. Both the start and the commands use this comparison. */
import type { PoolObject } from '../backends/backend.js';
import type { SnapshotRecord, VolumeRecord } from '../catalogue/records.js';

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

export const volumeObject = ({ volumeId, sizeBytes }: VolumeRecord): PoolObject => ({
  id: volumeId,
  sizeBytes,
});
export const snapshotObject = ({ snapshotId, sizeBytes }: SnapshotRecord): PoolObject => ({
  id: snapshotId,
  sizeBytes,
});

/**
 * @param recorded what the pool has to hold
 * @param isKnown whether the catalogue has a record of an object, finished or not
 */
export function compareObjects(
  held: readonly PoolObject[],
  recorded: readonly PoolObject[],
  isKnown: (id: string) => boolean,
): Difference[] {
  const found = new Map(held.map(({ id, sizeBytes }) => [id, sizeBytes]));
  const expected = new Set(recorded.map(({ id }) => id));
  const missing = recorded.flatMap(({ id, sizeBytes: recordedBytes }): Difference[] => {
    const heldBytes = found.get(id);
    if (heldBytes === undefined) return [{ kind: 'lost', id }];
    return heldBytes === recordedBytes ? [] : [{ kind: 'resized', id, heldBytes, recordedBytes }];
  });
  const unknown = held
    .filter(({ id }) => !expected.has(id) && !isKnown(id))
    .map(({ id }): Difference => ({ kind: 'unknown', id }));
  return [...missing, ...unknown];
}
