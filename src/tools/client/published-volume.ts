/**
 * Publishes volumes that a command needs for a while, as block devices: a temporary volume that is restored from a snapshot
 * and read, or a new volume that is written. Calls the driver as a conforming orchestrator does.
 *
 * Each volume has an entry in the runtime directory, with its paths and a record of the request. The record is written
 * before each step, so that a later command finds and removes what a killed command has left.
 *
 * A record alone is not enough to delete a volume: the driver must confirm the volume. CSI reports the names of volumes
 * nowhere, neither in ListVolumes nor in ControllerGetVolume. But CreateVolume is idempotent by name, so its answer to the
 * recorded request is the driver's own word for which volume has that name. Only this volume is deleted, and its name has a
 * random part that nobody else uses. If the volume is already gone, CreateVolume makes it again for a moment.
 */
import { CsiError, StatusCode } from '../../base/errors.js';
import type { RuntimeDirectory, RuntimeEntry } from '../../base/system/runtime-directory.js';
import type { CsiDriver, Message } from './csi-driver.js';
import { BLOCK_CAPABILITY, publish as publishAt, undoSteps } from './publication.js';
import type { SnapshotInfo } from './snapshot-info.js';
import { createRequest, nameOf, readRecord, type VolumeRecord, writeRecord } from './volume-record.js';

export interface PublishedVolume {
  readonly volumeId: string;
  readonly devicePath: string;
  /** 0 if the driver does not report the size. */
  readonly sizeBytes: bigint;
  /** Makes close() keep the volume. */
  keep(): void;
  /** Unpublishes the volume and deletes it, unless it is kept. */
  close(): Promise<void>;
}

const KIND = 'volume';
const TEMPORARY_PREFIX = 'blockdelta-volume';
/** In records, which have a name; no volume gets it. */
const GIVEN_PREFIX = 'given';
/** Undoing must end even if the driver is gone. */
const CLOSE_TIMEOUT_MS = 120_000;

/** Publishes a temporary volume with the content of the snapshot, read-only. */
export async function publishSnapshot(
  driver: CsiDriver,
  runtime: RuntimeDirectory,
  { snapshotId, sizeBytes }: Pick<SnapshotInfo, 'snapshotId' | 'sizeBytes'>,
): Promise<PublishedVolume> {
  return publish(driver, runtime, { sizeBytes, snapshotId, namePrefix: TEMPORARY_PREFIX });
}

/** Publishes a new volume for writing, which reads as zeros. Its name is the given name with a random part. */
export async function publishNewVolume(
  driver: CsiDriver,
  runtime: RuntimeDirectory,
  { name, sizeBytes }: { name: string; sizeBytes: bigint },
): Promise<PublishedVolume> {
  return publish(driver, runtime, { sizeBytes, snapshotId: null, namePrefix: name });
}

/**
 * Unpublishes the volumes that killed commands have left on this driver, and deletes the temporary ones. Reports each
 * volume, and whatever could not be removed. The driver must be ready.
 */
export async function removeLeftVolumes(driver: CsiDriver, runtime: RuntimeDirectory): Promise<void> {
  await runtime.sweep(KIND, async (entry) => {
    const record = readRecord(entry);
    // The command was killed before it asked the driver for anything, or after it had undone everything.
    if (record === null) return entry.discard();
    if (record.socketPath !== driver.socketPath) return;
    const { isTemporary, volumeId: recorded } = record;
    const volumeId = isTemporary ? await idOf(driver, entry, record) : recorded;
    await undo(driver, entry, { volumeId, isTemporary });
    if (volumeId !== null) {
      const end = isTemporary ? 'removed' : 'unpublished and kept';
      runtime.report(`${end} volume ${volumeId}, which an interrupted command had left`);
    } else if (recorded !== null) {
      runtime.report(
        `volume ${recorded} of an interrupted command was not looked for: the driver creates no volume of its name, ` +
          `${nameOf(record, entry)}, so it should be gone`,
      );
    }
  });
}

/** A volume of the driver. */
export interface GivenVolume {
  readonly volumeId: string;
  readonly context: Message;
  /** For NodeStageVolume. */
  readonly secrets: Readonly<Record<string, string>>;
}

/** Publishes a volume that others have made, for writing. It is never deleted. */
export async function publishGivenVolume(
  driver: CsiDriver,
  runtime: RuntimeDirectory,
  given: GivenVolume,
): Promise<PublishedVolume> {
  return publish(driver, runtime, { sizeBytes: 0n, snapshotId: null, namePrefix: GIVEN_PREFIX }, given);
}

type Wanted = Pick<VolumeRecord, 'sizeBytes' | 'snapshotId' | 'namePrefix'>;

/** @param given null to make a volume */
async function publish(
  driver: CsiDriver,
  runtime: RuntimeDirectory,
  wanted: Wanted,
  given: GivenVolume | null = null,
): Promise<PublishedVolume> {
  const info = await driver.info();
  const { socketPath } = driver;
  if (info.nodeId === '') {
    throw CsiError.failedPrecondition(
      `${socketPath} serves no Node service, so no volume can be published here; use the socket of the node's plugin`,
    );
  }
  const { segments } = info;
  const entry = runtime.make(KIND);
  let record: VolumeRecord = {
    ...wanted,
    socketPath,
    segments,
    volumeId: given?.volumeId ?? null,
    isTemporary: given === null,
  };
  const note = (change: Partial<VolumeRecord>): void => {
    record = { ...record, ...change };
    writeRecord(entry, record);
  };
  const close = async (): Promise<void> => {
    const undoing = driver.withSignal(AbortSignal.timeout(CLOSE_TIMEOUT_MS));
    try {
      const volumeId = record.volumeId ?? (await idOf(undoing, entry, record));
      await undo(undoing, entry, { volumeId, isTemporary: record.isTemporary });
    } finally {
      undoing.close();
      entry.release();
    }
  };
  try {
    note({});
    const volume = given === null ? await create(driver, entry, record) : null;
    const volumeId = given?.volumeId ?? String(volume?.['volume_id']);
    note({ volumeId });
    const context = given?.context ?? volume?.['volume_context'] ?? {};
    const secrets = given?.secrets ?? {};
    const devicePath = await expose(driver, entry, { volumeId, context, secrets }, wanted.snapshotId !== null);
    const sizeBytes = BigInt(volume?.['capacity_bytes'] ?? 0);
    return { volumeId, devicePath, sizeBytes, keep: () => note({ isTemporary: false }), close };
  } catch (thrown) {
    await close().catch(() => undefined);
    throw thrown;
  }
}

async function create(driver: CsiDriver, entry: RuntimeEntry, record: VolumeRecord): Promise<Message> {
  const { volume } = await driver.call('CreateVolume', createRequest(record, entry));
  return volume as Message;
}

/** Publishes the volume, and resolves to the path of the device. */
async function expose(
  driver: CsiDriver,
  entry: RuntimeEntry,
  { volumeId, context, secrets }: GivenVolume,
  readonly: boolean,
): Promise<string> {
  entry.makeDirectory(STAGING);
  const use = { ...pathsOf(entry, volumeId), capability: BLOCK_CAPABILITY, context, secrets, readonly };
  try {
    await publishAt((rpc, request) => driver.call(rpc, request), await driver.info(), use);
  } catch (thrown) {
    throw pathExplained(thrown, use.targetPath);
  }
  return use.targetPath;
}

/** Codes that drivers return for paths that they do not see, or at which they cannot mount. */
const BAD_PATH: readonly StatusCode[] = [
  StatusCode.FAILED_PRECONDITION,
  StatusCode.INVALID_ARGUMENT,
  StatusCode.NOT_FOUND,
  StatusCode.INTERNAL,
];

/** Adds the origin of the path to the message, because a driver in a container cannot mount everywhere. */
function pathExplained(thrown: unknown, targetPath: string): unknown {
  const { code, message, details } = CsiError.from(thrown);
  if (!BAD_PATH.includes(code)) return thrown;
  return new CsiError(
    code,
    `${message}; the volume was to appear at ${targetPath}: if the driver cannot mount there, set BLOCKDELTA_RUNTIME_DIR ` +
      'to a directory in which it can, such as /var/lib/kubelet/blockdelta',
    { cause: thrown, details },
  );
}

const STAGING = 'staging';

function pathsOf(entry: RuntimeEntry, volumeId: string) {
  return { volumeId, stagingPath: entry.pathOf(STAGING), targetPath: entry.pathOf('device') };
}

/** Can be repeated. `volumeId` is a volume that is known to be ours, or null if the volume was never created. */
async function undo(
  driver: CsiDriver,
  entry: RuntimeEntry,
  { volumeId, isTemporary }: Pick<VolumeRecord, 'volumeId' | 'isTemporary'>,
): Promise<void> {
  if (volumeId !== null) {
    const steps = undoSteps(await driver.info(), pathsOf(entry, volumeId));
    for (const { rpc, request } of steps) await driver.call(rpc, request);
    if (isTemporary) await driver.call('DeleteVolume', { volume_id: volumeId });
  }
  entry.discard();
}

/** Returns the id of the volume with the record's name; null if there is none and the driver makes none. */
async function idOf(driver: CsiDriver, entry: RuntimeEntry, record: VolumeRecord): Promise<string | null> {
  try {
    return String((await create(driver, entry, record))['volume_id']);
  } catch (thrown) {
    const { code } = CsiError.from(thrown);
    // The snapshot is gone, or a volume of that name was made by another request.
    const isRefused = code === StatusCode.NOT_FOUND || code === StatusCode.ALREADY_EXISTS;
    if (isRefused || code === StatusCode.RESOURCE_EXHAUSTED) return null;
    throw thrown;
  }
}
