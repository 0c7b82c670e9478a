/**
 * Makes one backup: publishes the snapshot, finds what changed, copies the changes into an image over its base, and
 * adds the image with its manifest to the repository. A run that ends early leaves nothing that looks complete, and the
 * next run removes its leftovers. Knows no command line.
 */
import { rm, stat, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { bestEffort } from '../../base/best-effort.js';
import { CsiError, messageOf, StatusCode } from '../../base/errors.js';
import { deviceNumberOf, deviceSectorBytes, deviceSizeBytes } from '../../base/system/device-attributes.js';
import type { RuntimeDirectory } from '../../base/system/runtime-directory.js';
import { packageVersion } from '../../base/version.js';
import type { CsiDriver, DriverInfo } from '../client/csi-driver.js';
import { openMetadata } from '../client/metadata-stream.js';
import { publishSnapshot, removeLeftVolumes } from '../client/published-volume.js';
import { describeSnapshot, type SnapshotInfo } from '../client/snapshot-info.js';
import { BLOCK_BYTES, type Compression } from '../nbd/image.js';
import { type BaseChoice, findBases } from './bases.js';
import { baseNameOf } from './chains.js';
import { type ChangeList, readChangeList } from './change-list.js';
import { checksumSegments, SEGMENT_BYTES } from './checksums.js';
import { copyIntoImage } from './copy-image.js';
import type { Manifest } from './manifest.js';
import type { NewBackupPaths, Repository } from './repository.js';
import type { Backup } from './stored-backup.js';
import { brokenBackups } from './verify.js';

export interface BackupRequest {
  driver: CsiDriver;
  runtime: RuntimeDirectory;
  snapshotId: string;
  /** The snapshot's volume, for a driver that cannot report it; null to ask the driver. */
  volumeId: string | null;
  repository: Repository;
  base: BaseChoice;
  /** Ranges are rounded outwards to multiples of this size. */
  grainBytes: bigint;
  /** Null: nothing is compressed. */
  compression: Compression | null;
  signal: AbortSignal;
  observer: BackupObserver;
}

export type Phase = 'publish' | 'list' | 'copy' | 'checksums' | 'add';

export interface BackupObserver {
  /** `total` is null while it is unknown. In the 'list' phase, both values are positions in the volume. */
  onProgress(phase: Phase, bytes: bigint, total: bigint | null): void;
  /** Reports a problem that does not end the backup. */
  onNotice(message: string): void;
}

export interface BackupResult {
  readonly backup: Backup;
  /** False if the repository already had a backup of this snapshot. */
  readonly isNew: boolean;
}

/**
 * @throws ABORTED if another command writes backups of the volume, RESOURCE_EXHAUSTED if the destination is full,
 *   InterruptedError or UNAVAILABLE if the driver cannot be reached, the driver's refusal of a call, and the signal's
 *   reason
 */
export async function backUp(request: BackupRequest): Promise<BackupResult> {
  const { driver, runtime, repository, observer } = request;
  const described = await describe(request);
  const lock = await repository.lock(described.volumeId);
  try {
    for (const { found } of lock.problems) observer.onNotice(found);
    await removeLeftVolumes(driver, runtime);
    await repository.addWaiting(described.volumeId, observer.onNotice);
    const volume = await repository.backupsOf(described.volumeId);
    const known = volume.backups.find(({ manifest }) => manifest.snapshot.id === described.snapshotId);
    if (known !== undefined) {
      const broken = (await brokenBackups(volume, request.signal)).get(known) ?? null;
      return { backup: intact(known, described, broken), isNew: false };
    }
    // The current time at least puts this backup after the older backups.
    const creationTime = described.creationTime ?? new Date();
    const backup = await make(request, { ...described, creationTime });
    return { backup, isNew: true };
  } finally {
    lock.release();
  }
}

/** `creationTime` is null if the driver cannot report it. */
type Described = Omit<SnapshotInfo, 'creationTime'> & { readonly creationTime: Date | null };

async function describe({ driver, snapshotId, volumeId }: BackupRequest): Promise<Described> {
  try {
    const found = await describeSnapshot(driver, snapshotId);
    if (volumeId === null || volumeId === found.volumeId) return found;
    throw CsiError.invalidArgument(`snapshot ${snapshotId} is one of volume ${found.volumeId}, not of ${volumeId}`);
  } catch (thrown) {
    if (volumeId === null || CsiError.from(thrown).code !== StatusCode.UNIMPLEMENTED) throw thrown;
    return { snapshotId, volumeId, sizeBytes: 0n, creationTime: null };
  }
}

/** Throws FAILED_PRECONDITION if the backup is of another snapshot with this id, or `broken` says why it cannot be restored. */
function intact(backup: Backup, { snapshotId, creationTime }: Described, broken: string | null): Backup {
  const path = join(backup.directory, backup.name);
  const { snapshot } = backup.manifest;
  if (creationTime !== null && creationTime.getTime() !== Date.parse(snapshot.creationTime)) {
    throw CsiError.failedPrecondition(
      `snapshot ${snapshotId} was taken at ${creationTime.toISOString()}, and ${path} is a backup of another ` +
        `snapshot with that id, taken at ${snapshot.creationTime}: use another directory`,
    );
  }
  if (broken === null) return backup;
  throw CsiError.failedPrecondition(
    `the snapshot has a backup that is damaged: ${broken}; restore the image from another copy, or take a new snapshot ` +
      'and make a full backup of that (--base none)',
  );
}

async function make(request: BackupRequest, snapshot: SnapshotInfo): Promise<Backup> {
  const { driver, runtime, repository, observer, signal } = request;
  const startedAt = new Date().toISOString();
  const paths = await repository.begin(snapshot.volumeId, {
    id: snapshot.snapshotId,
    creationTime: snapshot.creationTime,
  });
  observer.onProgress('publish', 0n, null);
  const published = await publishSnapshot(driver, runtime, snapshot);
  try {
    const device = published.devicePath;
    const found = await measure(device, snapshot);
    const source: Source = { snapshot, info: await driver.info(), device, ...found, startedAt };
    const backup = await copy(request, source, paths);
    await published.close().catch((thrown: unknown) => {
      observer.onNotice(
        `the backup is complete, but the temporary volume ${published.volumeId} stays until the next backup ` +
          `(${thrown instanceof Error ? thrown.message : thrown})`,
      );
    });
    return backup;
  } catch (thrown) {
    const stays =
      (what: string) =>
      (failure: unknown): void =>
        observer.onNotice(`${what} stays until the next backup of the volume (${messageOf(failure)})`);
    const volume = `the temporary volume ${published.volumeId}`;
    await bestEffort(() => published.close(), stays(volume));
    for (const path of [paths.imagePartial, paths.rangesPartial]) {
      await bestEffort(() => rm(path, { force: true }), stays(path));
    }
    signal.throwIfAborted();
    throw thrown;
  }
}

interface Source {
  snapshot: SnapshotInfo;
  info: DriverInfo;
  device: string;
  sizeBytes: bigint;
  /** Null if the device is a file. */
  sectorBytes: number | null;
  startedAt: string;
}

async function copy(request: BackupRequest, source: Source, paths: NewBackupPaths): Promise<Backup> {
  const { repository, observer, signal, compression } = request;
  const { device, sizeBytes } = source;
  try {
    const changes = await findChanges(request, source, paths);
    const total = changes.ranges.plan.bytes;
    await repository.assertRoom(total);
    await copyIntoImage({
      from: { device },
      sizeBytes,
      ranges: changes.ranges,
      path: paths.imagePartial,
      backing: changes.base?.manifest.image.file ?? null,
      compression,
      signal,
      onProgress: (bytes) => observer.onProgress('copy', bytes < total ? bytes : total, total),
    });
    const { size } = await stat(paths.imagePartial, { bigint: true });
    const { bytes, sha256 } = await checksumSegments(paths.imagePartial, {
      signal,
      onProgress: (done) => observer.onProgress('checksums', done, size),
    });
    observer.onProgress('add', 0n, null);
    const image = { file: paths.imageFile, bytes, segmentBytes: SEGMENT_BYTES, sha256, compression };
    return await repository.commit(paths, manifestOf(source, changes, image));
  } catch (thrown) {
    signal.throwIfAborted();
    throw await withFullDestination(thrown, paths.directory);
  }
}

interface Changes extends ChangeList {
  readonly base: Backup | null;
}

async function findChanges(
  { driver, repository, base: choice, grainBytes, signal, observer }: BackupRequest,
  { snapshot, info, sizeBytes }: Source,
  paths: NewBackupPaths,
): Promise<Changes> {
  const volume = await repository.backupsOf(snapshot.volumeId);
  const target = { driver, driverName: info.name, snapshot, sizeBytes };
  const { candidates, reasons } = await findBases(choice, volume, target);
  const list = await readChangeList({
    open: (part, end) => openMetadata(driver.socketPath, part, end),
    snapshotId: snapshot.snapshotId,
    sizeBytes,
    bases: candidates.map(({ backup, problem }) => ({ id: backup.manifest.snapshot.id, problem })),
    reasons,
    grainBytes: ((grainBytes + BLOCK_BYTES - 1n) / BLOCK_BYTES) * BLOCK_BYTES,
    path: paths.rangesPartial,
    signal,
    onInterrupted: (error, position) => {
      observer.onNotice(`the list was interrupted (${error.message}); resuming at byte ${position}`);
    },
    onProgress: (position) => observer.onProgress('list', position, sizeBytes),
  });
  const isOfBase = ({ backup }: { backup: Backup }) => backup.manifest.snapshot.id === list.baseId;
  const base = candidates.find(isOfBase)?.backup ?? null;
  const kind = base === null ? 'full' : 'not based on the newest one';
  if (volume.backups.length + volume.problems.length > 0) {
    for (const reason of list.reasons) observer.onNotice(`the backup is ${kind}: ${reason}`);
  }
  return { ...list, base };
}

function manifestOf(
  { snapshot, info, sizeBytes, sectorBytes, startedAt }: Source,
  { base, ranges, reasons }: Changes,
  image: Manifest['image'],
): Manifest {
  return {
    tool: `blockdelta ${packageVersion()}`,
    driver: { name: info.name, version: info.version },
    node: info.nodeId,
    volume: { id: snapshot.volumeId, sizeBytes, sectorBytes },
    snapshot: { id: snapshot.snapshotId, creationTime: snapshot.creationTime.toISOString() },
    base: base && baseNameOf(base),
    method: base === null ? 'full' : 'delta',
    reason: base === null ? reasons.join('; ') || null : null,
    skipped: base === null ? [] : reasons,
    ranges: {
      count: ranges.cost.mergedRanges,
      bytes: ranges.cost.mergedBytes,
      listedBytes: ranges.cost.bytes,
      grainBytes: ranges.grainBytes,
      sha256: ranges.sha256,
    },
    image,
    startedAt,
    completedAt: new Date().toISOString(),
  };
}

/** Measures the published block device or file. Throws FAILED_PRECONDITION if it is empty or smaller than the snapshot. */
async function measure(
  path: string,
  { snapshotId, sizeBytes }: SnapshotInfo,
): Promise<Pick<Source, 'sizeBytes' | 'sectorBytes'>> {
  const found = await stat(path);
  const device = found.isBlockDevice() ? deviceNumberOf(found) : null;
  const size = device === null ? BigInt(found.size) : await deviceSizeBytes(device);
  const sectorBytes = device && (await deviceSectorBytes(device));
  if (size !== null && size > 0n && size >= sizeBytes) return { sizeBytes: size, sectorBytes };
  throw CsiError.failedPrecondition(
    `the driver published a device of ${size ?? 0n} bytes for snapshot ${snapshotId} of ${sizeBytes} bytes at ${path}; ` +
      "see the driver's log",
  );
}

/** If a copy fails with less free space than this, the destination counts as full. */
const FULL_BELOW_BYTES = 8n << 20n;

async function withFullDestination(thrown: unknown, directory: string): Promise<unknown> {
  const { bavail, bsize } = await statfs(directory, { bigint: true });
  const free = bavail * bsize;
  if (free >= FULL_BELOW_BYTES) return thrown;
  return CsiError.resourceExhausted(
    `no space left for the backup in ${directory}: ${free} bytes are free; free some, or remove old backups with ` +
      'blockdelta prune, and run the backup again',
    { cause: thrown },
  );
}
