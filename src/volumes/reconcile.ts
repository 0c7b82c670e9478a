/**
 * What a start-up does before the plugin serves: finishes or undoes what a kill left half done, and
 * compares the catalogue with what the pools really hold.
 *
 * It removes only what an unfinished row of ours names, and temporary files. A volume that is larger
 * than its record was being expanded, and is taken as it is. Whatever else does not agree is reported
 * and left alone: a person decides.
 */
import type { Backend, PoolContents, PoolObject } from '../backends/backend.js';
import type { BackendRegistry } from '../backends/registry.js';
import { CsiError } from '../base/errors.js';
import type { AsyncCatalogue } from '../catalogue/catalogue-client.js';
import type {
  GroupSnapshotRecord,
  NewRetainedBase,
  SnapshotRecord,
  SnapshotState,
  UnfinishedWork,
  VolumeRecord,
} from '../catalogue/records.js';
import { onlyPool } from './group-rules.js';
import type { RetainedBases } from './retained-bases.js';
import { membersOf } from './take-snapshots.js';
import { finishExpansion, grownVolumes } from './volume-expansion.js';

export interface ReconcileReport {
  /** Deletions carried to their end. */
  finished: string[];
  /** Creations taken back, and temporary files removed. */
  undone: string[];
  /** What does not agree and was left as it is. */
  differences: string[];
}

export interface ReconcileDependencies {
  catalogue: AsyncCatalogue;
  registry: BackendRegistry;
  retainedBases: RetainedBases;
  /**
   * The catalogue has lost rows. Whatever it calls half made may have been finished since then, and what
   * is kept without a record may have had one, so neither is removed.
   */
  lacksRows?: boolean;
}

const NOTHING: UnfinishedWork = { volumes: [], snapshots: [], groups: [] };

export async function reconcile(deps: ReconcileDependencies): Promise<ReconcileReport> {
  const { catalogue, registry } = deps;
  const report: ReconcileReport = { finished: [], undone: [], differences: [] };
  const unfinished = deps.lacksRows ? NOTHING : await catalogue.unfinished();
  for (const group of unfinished.groups) {
    await attempt(report, `group snapshot ${group.groupSnapshotId}`, () =>
      settleGroup(deps, group, report),
    );
  }
  for (const snapshot of unfinished.snapshots) {
    await attempt(report, `snapshot ${snapshot.snapshotId}`, () =>
      settleSnapshot(deps, snapshot, report),
    );
  }
  for (const volume of unfinished.volumes) {
    await attempt(report, `volume ${volume.volumeId}`, () =>
      settleVolume(catalogue, registry, volume, report),
    );
  }
  for (const backend of registry.all) {
    await attempt(report, `pool '${backend.pool}'`, () => reconcilePool(deps, backend, report));
  }
  return report;
}

async function reconcilePool(
  { catalogue, retainedBases, lacksRows }: ReconcileDependencies,
  backend: Backend,
  report: ReconcileReport,
): Promise<void> {
  const swept = await backend.sweep();
  report.undone.push(...swept.map((name) => `temporary file ${name} in pool '${backend.pool}'`));
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
    await attempt(report, `looking through the kept bases of pool '${backend.pool}'`, () =>
      retainedBases.settle(backend),
    );
  }
  await compare({ catalogue, backend, volumes, contents }, report);
}

/** Gives volumes their mark that were handed out before pools had marks, or whose file was away. */
async function markInitializedVolumes(
  volumes: readonly VolumeRecord[],
  contents: PoolContents,
  backend: Backend,
): Promise<void> {
  const held = new Set(contents.volumes.map(({ id }) => id));
  const marked = await backend.initializedVolumes();
  for (const { volumeId, pristine } of volumes) {
    if (!pristine && held.has(volumeId) && !marked.has(volumeId))
      await backend.markInitialized(volumeId);
  }
}

/**
 * Before anything else is asked of a pool: refuses a directory that is not the one the catalogue knows,
 * such as one whose disk is not mounted.
 */
export async function claimPool(catalogue: AsyncCatalogue, backend: Backend): Promise<void> {
  const found = await backend.identity();
  const recorded = await catalogue.registerPool(backend.pool, found);
  if (recorded !== found) {
    throw CsiError.failedPrecondition(
      `pool '${backend.pool}' has the identity ${found} and the catalogue knows it as ${recorded}: ` +
        "is the pool's file system mounted, and the directory the right one?",
    );
  }
}

async function attempt(
  report: ReconcileReport,
  label: string,
  work: () => Promise<void>,
): Promise<void> {
  try {
    await work();
  } catch (thrown) {
    report.differences.push(`${label} is unfinished: ${CsiError.from(thrown).message}`);
  }
}

/** All members or none: a group is never left with some of them. */
async function settleGroup(
  deps: ReconcileDependencies,
  { groupSnapshotId, state }: GroupSnapshotRecord,
  report: ReconcileReport,
): Promise<void> {
  const members = await deps.catalogue.snapshotsOfGroup(groupSnapshotId);
  const remains = await settleCuts(deps, members, state);
  await deps.catalogue.removeGroup(groupSnapshotId, remains);
  if (state === 'creating') report.undone.push(`group snapshot ${groupSnapshotId}`);
  else report.finished.push(`deletion of group snapshot ${groupSnapshotId}`);
}

async function settleSnapshot(
  deps: ReconcileDependencies,
  snapshot: SnapshotRecord,
  report: ReconcileReport,
): Promise<void> {
  const { snapshotId, state } = snapshot;
  const [remains] = await settleCuts(deps, [snapshot], state);
  await deps.catalogue.removeSnapshot(snapshotId, remains ?? null);
  if (state === 'creating') report.undone.push(`snapshot ${snapshotId}`);
  else report.finished.push(`deletion of snapshot ${snapshotId}`);
}

/** Removes what unfinished cuts or deletions have left in the pool. Returns what to keep in mind of it. */
async function settleCuts(
  { registry, retainedBases }: ReconcileDependencies,
  snapshots: readonly SnapshotRecord[],
  state: SnapshotState,
): Promise<NewRetainedBase[]> {
  const backend = registry.owning(onlyPool(snapshots));
  if (state === 'deleting') return retainedBases.removeSnapshots(backend, snapshots);
  await backend.abandonSnapshots(membersOf(snapshots));
  return [];
}

async function settleVolume(
  catalogue: AsyncCatalogue,
  registry: BackendRegistry,
  volume: VolumeRecord,
  report: ReconcileReport,
): Promise<void> {
  const { volumeId, sourceVolumeId } = volume;
  const backend = registry.owning(volume.pool);
  // Only a volume that was ready is ever handed out: the row has lost that, and not the pool.
  if (volume.state === 'creating' && (await backend.isInitialized(volumeId))) {
    await catalogue.setVolumeState(volumeId, 'ready');
    report.differences.push(
      `volume ${volumeId} was handed out, and the catalogue called it half made: it is ready`,
    );
    return;
  }
  if (volume.state === 'creating' && sourceVolumeId !== null) {
    await backend.abandonClone(volumeId, sourceVolumeId);
  } else {
    await backend.deleteVolume(volumeId);
  }
  await catalogue.removeVolume(volume.volumeId);
  if (volume.state === 'creating') report.undone.push(`volume ${volume.volumeId}`);
  else report.finished.push(`deletion of volume ${volume.volumeId}`);
}

interface Comparison {
  catalogue: AsyncCatalogue;
  backend: Backend;
  /** Of the pool, with the sizes that they have by now. */
  volumes: readonly VolumeRecord[];
  contents: PoolContents;
}

async function compare(
  { catalogue, backend, volumes, contents }: Comparison,
  report: ReconcileReport,
): Promise<void> {
  const where = `pool '${backend.pool}'`;
  const snapshots = (await catalogue.listSnapshots()).filter(
    (snapshot) => snapshot.pool === backend.pool,
  );
  const listed = await catalogue.unfinished();
  const members = await Promise.all(
    listed.groups.map((group) => catalogue.snapshotsOfGroup(group.groupSnapshotId)),
  );
  const pending = new Set([
    ...listed.volumes.map((volume) => volume.volumeId),
    ...[...listed.snapshots, ...members.flat()].map((snapshot) => snapshot.snapshotId),
  ]);
  report.differences.push(
    ...differences(where, contents.volumes, volumes.map(asVolumeObject), pending),
    ...differences(where, contents.snapshots, snapshots.map(asSnapshotObject), pending),
    ...contents.unknown.map((name) => `${where} holds ${name}, which is not ours`),
  );
}

const asVolumeObject = (volume: VolumeRecord): PoolObject => ({
  id: volume.volumeId,
  sizeBytes: volume.sizeBytes,
});
const asSnapshotObject = (snapshot: SnapshotRecord): PoolObject => ({
  id: snapshot.snapshotId,
  sizeBytes: snapshot.sizeBytes,
});

function differences(
  where: string,
  held: readonly PoolObject[],
  known: readonly PoolObject[],
  pending: ReadonlySet<string>,
): string[] {
  const found = new Map(held.map((object) => [object.id, object.sizeBytes]));
  const expected = new Set(known.map((object) => object.id));
  const missing = known.flatMap((object) => {
    const sizeBytes = found.get(object.id);
    if (sizeBytes === undefined) return [`${where} has lost ${object.id}`];
    if (sizeBytes === object.sizeBytes) return [];
    return [`${where}: ${object.id} has ${sizeBytes} bytes and should have ${object.sizeBytes}`];
  });
  const strange = held
    .filter((object) => !expected.has(object.id) && !pending.has(object.id))
    .map((object) => `${where} holds ${object.id}, which the catalogue does not know`);
  return [...missing, ...strange];
}
