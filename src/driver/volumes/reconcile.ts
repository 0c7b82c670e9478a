/**
 * Reconciles the catalogue with the pools before the plugin serves: completes or rolls back what a kill has interrupted, and
 * compares the rows with what the pools hold.
 *
 * Removes only retained bases over the limits or without a record, objects that an unfinished row marks as being deleted,
 * incomplete objects that an unfinished row marks as being created, and marks of volumes that are gone. Updates the record of a
 * volume that is larger than its record, because its expansion was interrupted. Detaches a device that a staging left attached
 * and nobody uses. Leaves any other difference to the operator.
 */

import { CsiError, messageOf, StatusCode } from '../../base/errors.js';
import type { Backend, PoolContents } from '../backends/backend.js';
import type { BackendRegistry } from '../backends/registry.js';
import type { AsyncCatalogue } from '../catalogue/catalogue-client.js';
import type { UnfinishedWork, VolumeRecord } from '../catalogue/records.js';
import { settleNewVolume } from './interrupted-volume.js';
import { compareObjects, type Difference, snapshotObject, volumeObject } from './pool-comparison.js';
import type { RetainedBases } from './retained-bases.js';
import { finishDeletion, labelOf, type SnapshotSet, settleNewSnapshots, stateOf } from './snapshot-sets.js';
import { finishExpansion, grownVolumes } from './volume-expansion.js';

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
  /** The catalogue has lost rows. No base is removed, because its record may be lost, and no unused device is released. */
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
  for (const backend of registry.all) {
    await attempt(report, `pool '${backend.pool}'`, () => reconcilePool(deps, backend, report));
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
  { catalogue, retainedBases, swept, lacksRows }: ReconcileDependencies,
  backend: Backend,
  report: ReconcileReport,
): Promise<void> {
  const { pool: name } = backend;
  report.undone.push(...(swept?.get(name) ?? []).map((file) => `temporary file ${file} in pool '${name}'`));
  const contents = await backend.list();
  const volumes = (await catalogue.listVolumes()).filter(({ pool }) => pool === backend.pool);
  for (const grown of grownVolumes(volumes, contents)) {
    const label = `expansion of volume ${grown.volume.volumeId}`;
    await attempt(report, label, async () => {
      const sizeBytes = await finishExpansion(catalogue, backend, grown);
      grown.volume.sizeBytes = sizeBytes;
      report.finished.push(`${label} to ${sizeBytes} bytes`);
    });
  }
  await markInitializedVolumes(volumes, contents, backend);
  if (!lacksRows) {
    await attempt(report, `the check of the retained bases of pool '${backend.pool}'`, () =>
      retainedBases.review(backend),
    );
    await attempt(report, `the release of unused devices of pool '${backend.pool}'`, () =>
      releaseUnused(catalogue, backend, volumes, report),
    );
  }
  await compare({ catalogue, backend, volumes, contents }, report);
}

/**
 * Detaches volumes that were being staged as file systems and are mounted nowhere, because the clean-up of a staging failed or
 * was killed. Taking the device exclusively proves that it is mounted in no mount namespace. A raw device stays attached,
 * because it may be bound where this plugin does not see it.
 */
async function releaseUnused(
  catalogue: AsyncCatalogue,
  backend: Backend,
  volumes: readonly VolumeRecord[],
  report: ReconcileReport,
): Promise<void> {
  const stagings = await catalogue.unpublishedStagings();
  for (const { volumeId } of volumes) {
    const own = stagings.filter((staging) => staging.volumeId === volumeId);
    if (own.length === 0 || own.some(({ capability }) => capability.accessType === 'block')) {
      continue;
    }
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
  volumes: readonly VolumeRecord[],
  contents: PoolContents,
  backend: Backend,
): Promise<void> {
  const held = new Set(contents.volumes.map(({ id }) => id));
  const marked = await backend.marks.sweep();
  const missing = volumes
    .filter((each) => !each.pristine && held.has(each.volumeId) && !marked.has(each.volumeId))
    .map(({ volumeId }) => volumeId);
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

interface Comparison {
  catalogue: AsyncCatalogue;
  backend: Backend;
  /** The pool's volumes, with their current sizes. */
  volumes: readonly VolumeRecord[];
  contents: PoolContents;
}

async function compare({ catalogue, backend, volumes, contents }: Comparison, report: ReconcileReport): Promise<void> {
  const where = `pool '${backend.pool}'`;
  const snapshots = (await catalogue.listSnapshots()).filter((snapshot) => snapshot.pool === backend.pool);
  const listed = await catalogue.unfinished();
  const members = await membersOf(catalogue, listed);
  const pending = new Set([
    ...listed.volumes.map((volume) => volume.volumeId),
    ...[...listed.snapshots, ...members.flat()].map((snapshot) => snapshot.snapshotId),
  ]);
  const isKnown = (id: string): boolean => pending.has(id);
  const differences = [
    ...compareObjects(contents.volumes, volumes.map(volumeObject), isKnown),
    ...compareObjects(contents.snapshots, snapshots.map(snapshotObject), isKnown),
  ];
  report.differences.push(
    ...differences.map((each) => inWords(where, each)),
    ...contents.unknown.map((name) => `${where} holds ${name}, which blockdelta did not create`),
  );
}

function inWords(where: string, difference: Difference): string {
  const { kind, id } = difference;
  if (kind === 'lost') return `${where} has lost ${id}`;
  if (kind === 'unknown') return `${where} holds ${id}, which the catalogue does not know`;
  const { heldBytes, recordedBytes } = difference;
  return `${where}: ${id} has ${heldBytes} bytes and should have ${recordedBytes}`;
}
