/**
 * Finds the neighbours of a snapshot among the snapshots of its volume that the pool holds: the ready snapshots, and the
 * deleted snapshots whose base is pending. A change list leads from each of these snapshots to the next.
 */
import type { Backend } from '../backends/backend.js';
import type { AsyncCatalogue } from '../catalogue/catalogue-client.js';
import type { RetainedBaseRecord, SnapshotRecord } from '../catalogue/records.js';

/** The fields that place a snapshot in the history of its volume. */
export type Placed = Pick<SnapshotRecord, 'snapshotId' | 'volumeId' | 'sequence'>;

/** The pending bases of the volume, oldest first; usually none or one. */
export async function pendingBases(
  catalogue: AsyncCatalogue,
  backend: Backend,
  volumeId: string,
): Promise<RetainedBaseRecord[]> {
  const pending = backend.bases.held;
  if (pending.size === 0) return [];
  const records = await catalogue.retainedBasesOf(backend.pool, volumeId);
  return records.filter(({ snapshotId, invalidated }) => invalidated === null && pending.has(snapshotId));
}

export async function heldBefore(
  catalogue: AsyncCatalogue,
  backend: Backend,
  { volumeId, sequence }: Placed,
): Promise<Placed | null> {
  const ready = await catalogue.snapshotBefore(volumeId, sequence);
  const pending = await pendingBases(catalogue, backend, volumeId);
  const before = pending.filter((base) => base.sequence < sequence).at(-1) ?? null;
  if (ready === null || before === null) return ready ?? before;
  return ready.sequence > before.sequence ? ready : before;
}

export async function heldAfter(
  catalogue: AsyncCatalogue,
  backend: Backend,
  { volumeId, sequence }: Placed,
): Promise<Placed | null> {
  const ready = await catalogue.snapshotAfter(volumeId, sequence);
  const pending = await pendingBases(catalogue, backend, volumeId);
  const after = pending.find((base) => base.sequence > sequence) ?? null;
  if (ready === null || after === null) return ready ?? after;
  return ready.sequence < after.sequence ? ready : after;
}
