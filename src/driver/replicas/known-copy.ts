/** What this node knows of a snapshot that its own node may have lost. */
import type { BackendRegistry } from '../backends/registry.js';
import type { AsyncCatalogue } from '../catalogue/catalogue-client.js';
import type { DescribedSnapshot } from '../catalogue/records.js';

export interface KnownCopy {
  /** As a snapshot of this node. absent: it was deleted, or taken by another catalogue. */
  readonly own: 'absent' | 'held' | 'lost';
  readonly catalogueUuid: string;
  /** The complete replica of it that is promised; null if there is none. */
  readonly kept: DescribedSnapshot | null;
}

export interface KnownCopyDependencies {
  catalogue: Pick<AsyncCatalogue, 'snapshotById' | 'replicaById' | 'uuid'>;
  registry: BackendRegistry;
  /** Whether the catalogue has lost rows. */
  lacksRows(): boolean;
}

export async function findCopy(deps: KnownCopyDependencies, snapshotId: string): Promise<KnownCopy> {
  const { catalogue } = deps;
  const replica = await catalogue.replicaById(snapshotId);
  const isKept = replica?.promiseId != null && replica.nextOffset === null;
  const catalogueUuid = await catalogue.uuid();
  return { own: await ownState(deps, snapshotId), catalogueUuid, kept: isKept ? replica : null };
}

async function ownState(
  { catalogue, registry, lacksRows }: KnownCopyDependencies,
  id: string,
): Promise<KnownCopy['own']> {
  const snapshot = await catalogue.snapshotById(id);
  if (snapshot === null) return lacksRows() ? 'lost' : 'absent';
  try {
    await registry.owning(snapshot.pool).snapshots.check(id, snapshot.sizeBytes);
    return 'held';
  } catch {
    // A snapshot never changes, so a copy of one that is here after all is as good.
    return 'lost';
  }
}
