/**
 * Reconciles the catalogue with the pools before the plugin serves: completes or rolls back what a kill has interrupted, and
 * compares the rows with what the pools hold. Looks at no snapshot's file, because each start waits for this work; the retained
 * bases and the sizes of snapshots follow (start-review.ts).
 *
 * Removes only objects that an unfinished row marks as being deleted, incomplete objects that an unfinished row marks as being
 * created, and marks of volumes that are gone. Updates the record of a
 * volume that is larger than its record, because its expansion was interrupted. Detaches a device that a staging left attached
 * and nobody uses. Leaves any other difference to the operator.
 */

import { CsiError, messageOf, StatusCode } from '../../base/errors.js';
import type { Backend, PoolContents } from '../backends/backend.js';
import type { BackendRegistry } from '../backends/registry.js';
import type { AsyncCatalogue } from '../catalogue/catalogue-client.js';
import type { StagingRecord, UnfinishedWork, VolumeRecord } from '../catalogue/records.js';
import { settleNewVolume } from './interrupted-volume.js';
import { type Difference, inWords, type PoolLook, poolLook } from './pool-comparison.js';
import type { RetainedBases } from './retained-bases.js';
import { finishDeletion, labelOf, type SnapshotSet, settleNewSnapshots, stateOf } from './snapshot-sets.js';
import { finishExpansion } from './volume-expansion.js';

export interface ReconcileReport {
  /** Creations, deletions and expansions that were completed, and unused devices that were released. */
  finished: string[];
  /** Creations that were rolled back, and temporary files that the starts of the pools removed. */
  undone: string[];
  /** Differences that were left as they are. */
  differences: string[];
}

/** What the start of each pool has removed, by pool; see Backend.start. */
export type SweptNames = ReadonlyMap<string, readonly string[]>;

export interface ReconcileDependencies {
  catalogue: AsyncCatalogue;
  registry: BackendRegistry;
  retainedBases: RetainedBases;
  swept?: SweptNames;
  /** What was seen of pools just before, by pool. */
  seen?: ReadonlyMap<string, PoolLook>;
  /** The catalogue has lost rows. No unused device is released. */
  lacksRows?: boolean;
  /**
   * The only pool to handle, and the only pool of the registry, while other pools are served: the unfinished rows of those
   * pools are calls in progress. Left out if all pools are handled.
   */
  pool?: string;
}

export async function reconcile(deps: ReconcileDependencies): Promise<ReconcileReport> {
  const { catalogue, registry } = deps;
  const report: ReconcileReport = { finished: [], undone: [], differences: [] };
  const unfinished = await unfinishedWork(deps);
  for (const group of unfinished.groups) {
    await attempt(report, `group snapshot ${group.groupSnapshotId}`, async () => {
      const members = await catalogue.snapshotsOfGroup(group.groupSnapshotId);
      await settleSnapshots(deps, { group, members }, report);
    });
  }
  for (const snapshot of unfinished.snapshots) {
    await attempt(report, `snapshot ${snapshot.snapshotId}`, () =>
      settleSnapshots(deps, { group: null, members: [snapshot] }, report),
    );
  }
  for (const volume of unfinished.volumes) {
    await attempt(report, `volume ${volume.volumeId}`, () => settleVolume(catalogue, registry, volume, report));
  }
  // Settling changes the pools and the rows.
  const isChanged = Object.values(unfinished).some(({ length }) => length > 0);
  for (const backend of registry.all) {
    const seen = isChanged ? undefined : deps.seen?.get(backend.pool);
    await attempt(report, `pool '${backend.pool}'`, () => reconcilePool(deps, backend, seen, report));
  }
  return report;
}

async function unfinishedWork({ catalogue, pool }: ReconcileDependencies): Promise<UnfinishedWork> {
  const all = await catalogue.unfinished();
  if (pool === undefined) return all;
  const members = await membersOf(catalogue, all);
  return {
    volumes: all.volumes.filter((volume) => volume.pool === pool),
    snapshots: all.snapshots.filter((snapshot) => snapshot.pool === pool),
    groups: all.groups.filter((_, index) => members[index]?.[0]?.pool === pool),
  };
}

/** The members of each group, in the order of the groups. */
function membersOf(catalogue: AsyncCatalogue, { groups }: UnfinishedWork) {
  return Promise.all(groups.map((each) => catalogue.snapshotsOfGroup(each.groupSnapshotId)));
}

async function reconcilePool(
  { catalogue, swept, lacksRows }: ReconcileDependencies,
  backend: Backend,
  seen: PoolLook | undefined,
  report: ReconcileReport,
): Promise<void> {
  const { pool: name } = backend;
  report.undone.push(...(swept?.get(name) ?? []).map((file) => `temporary file ${file} in pool '${name}'`));
  const look = seen ?? poolLook(await backend.list('volumes'), await catalogue.objectsIn(name));
  const { contents } = look;
  const left = new Set(look.volumes);
  for (const difference of look.volumes) {
    if (difference.kind !== 'resized' || difference.heldBytes < difference.recordedBytes) continue;
    const label = `expansion of volume ${difference.id}`;
    await attempt(report, label, async () => {
      const sizeBytes = await finishExpansion(catalogue, backend, difference.id, difference.heldBytes);
      left.delete(difference);
      report.finished.push(`${label} to ${sizeBytes} bytes`);
    });
  }
  await markInitializedVolumes(catalogue, contents, backend);
  if (!lacksRows) {
    await attempt(report, `the release of unused devices of pool '${name}'`, () =>
      releaseUnused(catalogue, backend, report),
    );
  }
  const differences = await unexplained(catalogue, [...left, ...look.snapshots]);
  report.differences.push(
    ...differences.map((each) => inWords(name, each)),
    ...contents.unknown.map((file) => `pool '${name}' holds ${file}, which blockdelta did not create`),
  );
}

/**
 * Detaches volumes that were being staged as file systems and are mounted nowhere, because the clean-up of a staging failed or
 * was killed. Taking the device exclusively proves that it is mounted in no mount namespace. A raw device stays attached,
 * because it may be bound where this plugin does not see it.
 */
async function releaseUnused(catalogue: AsyncCatalogue, backend: Backend, report: ReconcileReport): Promise<void> {
  const stagings = await catalogue.unpublishedStagings(backend.pool);
  const isRaw = ({ capability }: StagingRecord): boolean => capability.accessType === 'block';
  const raw = new Set(stagings.filter(isRaw).map(({ volumeId }) => volumeId));
  for (const volumeId of new Set(stagings.map((staging) => staging.volumeId))) {
    if (raw.has(volumeId)) continue;
    if ((await backend.attachments.find(volumeId)) === null) continue;
    try {
      await backend.attachments.detach(volumeId, { timeoutMs: 0 });
      report.finished.push(`release of the unused device of volume ${volumeId}`);
    } catch (thrown) {
      // The device is in use: it is mounted, or open in a program, such as a program that reads every new device.
      if (CsiError.from(thrown).code !== StatusCode.FAILED_PRECONDITION) throw thrown;
    }
  }
}

/**
 * Removes the marks of volumes that are gone, once their rows are settled, and marks initialized volumes whose mark is missing,
 * because its file was removed.
 */
async function markInitializedVolumes(
  catalogue: AsyncCatalogue,
  contents: PoolContents,
  backend: Backend,
): Promise<void> {
  const marked = await backend.marks.sweep(contents.volumes);
  const unmarked = contents.volumes.map(({ id }) => id).filter((id) => !marked.has(id));
  const missing = await catalogue.initializedAmong(backend.pool, unmarked);
  if (missing.length > 0) await backend.marks.set(missing);
}

/**
 * Refuses a directory that is not the pool that the catalogue knows, for example because its disk is not
 * mounted. Registers a new pool.
 *
 * @param found the uuid that the pool stores
 */
export async function claimPool(catalogue: AsyncCatalogue, pool: string, found: string): Promise<void> {
  const recorded = await catalogue.registerPool(pool, found);
  if (recorded !== found) {
    throw CsiError.failedPrecondition(
      `pool '${pool}' has the identity ${found} and the catalogue knows it as ${recorded}: ` +
        "is the pool's file system mounted, and the directory the right one?",
    );
  }
}

async function attempt(report: ReconcileReport, label: string, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (thrown) {
    report.differences.push(`${label} is unfinished: ${messageOf(thrown)}`);
  }
}

/** Handles all members of a group or none, so that no group is left with some of them. */
async function settleSnapshots(deps: ReconcileDependencies, set: SnapshotSet, report: ReconcileReport): Promise<void> {
  if (stateOf(set) === 'deleting') {
    await finishDeletion(deps, set);
    report.finished.push(`deletion of ${labelOf(set)}`);
  } else if (await settleNewSnapshots(deps, set)) {
    report.finished.push(`creation of ${labelOf(set)}`);
  } else {
    report.undone.push(labelOf(set));
  }
}

async function settleVolume(
  catalogue: AsyncCatalogue,
  registry: BackendRegistry,
  volume: VolumeRecord,
  report: ReconcileReport,
): Promise<void> {
  const { volumeId } = volume;
  if (volume.state === 'deleting') {
    await registry.owning(volume.pool).volumes.delete(volumeId);
    await catalogue.removeVolume(volumeId);
    report.finished.push(`deletion of volume ${volumeId}`);
  } else if (await settleNewVolume({ catalogue, registry }, volume)) {
    report.finished.push(`creation of volume ${volumeId}`);
  } else {
    report.undone.push(`volume ${volumeId}`);
  }
}

/** The differences without the objects of unfinished rows, which a failed attempt to settle them has reported. */
async function unexplained(
  catalogue: AsyncCatalogue,
  differences: readonly Difference[],
): Promise<readonly Difference[]> {
  if (differences.length === 0) return differences;
  const listed = await catalogue.unfinished();
  const members = await membersOf(catalogue, listed);
  const pending = new Set([
    ...listed.volumes.map((volume) => volume.volumeId),
    ...[...listed.snapshots, ...members.flat()].map((snapshot) => snapshot.snapshotId),
  ]);
  return differences.filter(({ kind, id }) => kind !== 'unknown' || !pending.has(id));
}
