/**
 * Restores a backup to the volume that it is of, in place: writes only what the volume holds otherwise, by the driver's delta from the
 * snapshot of the backup to one that is taken now.
 *
 * Until all is written, the volume holds parts of two states. So it is marked at the driver before the first byte is written, and the
 * mark goes when all was compared with the backup. A command that is killed at any step is finished by the same command: each run
 * takes a snapshot of its own, whose delta holds whatever earlier runs have written. The snapshot of the first run has what the volume
 * held before, and stays until the end.
 */
import { randomBytes } from 'node:crypto';
import { bestEffort } from '../../base/best-effort.js';
import { RESTORE_TOKEN } from '../../base/csi/restore-proto.js';
import { CsiError, messageOf, StatusCode } from '../../base/errors.js';
import { pollUntil } from '../../base/poll.js';
import { sizeOfDeviceAt } from '../../base/system/device-attributes.js';
import type { RuntimeDirectory } from '../../base/system/runtime-directory.js';
import type { CsiDriver, Message } from '../client/csi-driver.js';
import { openMetadata } from '../client/metadata-stream.js';
import { publishGivenVolume, removeLeftVolumes } from '../client/published-volume.js';
import { entriesOf } from '../client/snapshot-info.js';
import type { ImageChain } from '../nbd/image-chain.js';
import { makeSocketDirectory } from '../nbd/socket-directory.js';
import { isReplaced } from './bases.js';
import { readChangeList } from './change-list.js';
import { writeToDevice } from './copy-to-device.js';
import type { Manifest } from './manifest.js';
import { assertIntact, assertNoProblems } from './restore.js';
import type { ChosenBackup } from './select.js';
import { examineImages } from './verify.js';

export interface InPlaceRequest {
  driver: CsiDriver;
  runtime: RuntimeDirectory;
  /** What a user is told to run to finish the restore. */
  command: string;
  /** Goes on if the driver cannot keep others from the volume while it is half restored. */
  isUnprotected: boolean;
  /** Keeps the snapshot of what the volume held before. */
  keepsSnapshot: boolean;
  signal: AbortSignal;
  onNotice(message: string): void;
  onPhase(phase: Phase): void;
}

export type Phase = 'prepare' | 'list' | 'write' | 'compare';

export interface InPlaceResult {
  readonly volumeId: string;
  /** Why everything was written; null if only the delta was. */
  readonly reason: string | null;
  readonly ranges: number;
  /** What differs, and what was written: nbdcopy rounds ranges outwards. */
  readonly bytes: bigint;
  readonly writtenBytes: bigint;
  /** The snapshot of what the volume held before; null if it was deleted. */
  readonly keptSnapshotId: string | null;
}

interface Mark {
  /** Null if the driver has no marks. */
  readonly token: string | null;
  readonly snapshotName: string;
  /** Whether no earlier run may have written to the volume. */
  readonly isNew: boolean;
}

/** Calls after a failure must end even if the driver is gone. */
const UNDO_TIMEOUT_MS = 60_000;
const SNAPSHOT_TIMEOUT_MS = 600_000;
const SNAPSHOT_POLL_MS = 500;
/** Of the volume: what is written is a multiple of it. */
const GRAIN_BYTES = 4096n;

/**
 * Before the first byte is written, a failure leaves the volume as it was. After that, it stays marked.
 *
 * @throws CsiError FAILED_PRECONDITION if the volume is in use or too small, a segment of an image that is read is damaged, or the
 *   driver has no marks and the request is not `isUnprotected`; NOT_FOUND if there is no such volume
 */
export async function restoreInPlace(chosen: ChosenBackup, request: InPlaceRequest): Promise<InPlaceResult> {
  const { driver, runtime, signal, onNotice } = request;
  const { manifest } = chosen.backup;
  const { id: volumeId } = manifest.volume;
  assertNoProblems(await examineImages(chosen.volume.images, chosen.chain, signal));
  await removeLeftVolumes(driver, runtime);
  const volume = await findVolume(driver, volumeId);
  assertLargeEnough(manifest, volume.sizeBytes);
  const mark = await begin(request, volumeId);
  const run: Run = { mark, context: volume.context, before: null, state: 'unchanged' };
  try {
    return await restore(chosen, request, run);
  } catch (thrown) {
    if (run.state !== 'restored') {
      const undo = (): Promise<void> => giveUp(request, volumeId, run);
      await bestEffort(undo, (failure) => onNotice(messageOf(failure)));
    }
    signal.throwIfAborted();
    throw thrown;
  }
}

interface Run {
  readonly mark: Mark;
  readonly context: Message;
  /** The snapshot of what the volume held before. */
  before: string | null;
  /** What this run has made of the volume. */
  state: 'unchanged' | 'half restored' | 'restored';
}

async function restore(
  { backup, chain, volume }: ChosenBackup,
  { driver, runtime, keepsSnapshot, signal, onNotice, onPhase }: InPlaceRequest,
  run: Run,
): Promise<InPlaceResult> {
  const { id: volumeId } = backup.manifest.volume;
  const { snapshotName, token, isNew } = run.mark;
  onPhase('prepare');
  const before = await takeSnapshot(driver, volumeId, snapshotName);
  run.before = before;
  const now = isNew ? before : await takeAgain(driver, volumeId, `${snapshotName}-again`);
  const secrets = token === null ? {} : { [RESTORE_TOKEN]: token };
  const published = await publishGivenVolume(driver, runtime, { volumeId, context: run.context, secrets });
  const files = makeSocketDirectory(runtime);
  const { devicePath: device } = published;
  try {
    const sizeBytes = await sizeOfDeviceAt(device);
    assertLargeEnough(backup.manifest, sizeBytes);
    onPhase('list');
    const { baseId, reasons, ranges } = await readChangeList({
      open: (part, end) => openMetadata(driver.socketPath, part, end),
      snapshotId: now,
      sizeBytes,
      bases: [{ id: backup.manifest.snapshot.id, problem: await noBase(backup.manifest, driver) }],
      reasons: [],
      isWholeWithoutBase: true,
      isTight: true,
      grainBytes: GRAIN_BYTES,
      path: files.pathOf('ranges'),
      signal,
      onInterrupted: (error, position) =>
        onNotice(`the list was interrupted (${error.message}); resuming at byte ${position}`),
    });
    const reason = baseId === null ? reasons.join('; ') : null;
    if (reason !== null) onNotice(`everything is written: ${reason}`);
    const write = (images: ImageChain): Promise<void> =>
      writeToDevice({
        images,
        ranges,
        device,
        sizeBytes,
        runtime,
        signal,
        onWriting: () => {
          run.state = 'half restored';
          onPhase('write');
        },
        onComparing: () => onPhase('compare'),
      });
    const segments = chain.reduce((sum, { manifest }) => sum + manifest.image.sha256.length, 0);
    // That many ranges are in most segments, and each segment would be asked for again and again.
    if (baseId === null || ranges.cost.mergedRanges > segments) {
      await assertIntact({ backup, chain, volume }, { signal });
      await volume.images.open(chain, write);
    } else {
      await volume.images.openChecked(chain, { runtime, signal }, write);
    }
    const keptSnapshotId = keepsSnapshot ? before : null;
    // While the volume is published, no other command begins and counts on these snapshots.
    for (const id of new Set([before, now])) {
      if (id === keptSnapshotId) continue;
      await bestEffort(
        () => driver.call('DeleteSnapshot', { snapshot_id: id }),
        (failure) => onNotice(`snapshot ${id} of the volume stays: ${messageOf(failure)}`),
      );
    }
    if (token !== null) await driver.call('EndRestore', { volume_id: volumeId, token });
    run.state = 'restored';
    const { mergedRanges, mergedBytes } = ranges.cost;
    await published.close();
    return {
      volumeId,
      reason,
      ranges: mergedRanges,
      bytes: mergedBytes,
      writtenBytes: ranges.plan.bytes,
      keptSnapshotId,
    };
  } catch (thrown) {
    await bestEffort(
      () => published.close(),
      (failure) => onNotice(`the volume stays published at ${device} until the next command: ${messageOf(failure)}`),
    );
    throw thrown;
  } finally {
    files.discard();
  }
}

/** Ends the restore if nothing was ever written to the volume, and says what is left otherwise. */
async function giveUp({ driver, onNotice }: InPlaceRequest, volumeId: string, run: Run): Promise<void> {
  const { mark, before, state } = run;
  const undoing = driver.withSignal(AbortSignal.timeout(UNDO_TIMEOUT_MS));
  try {
    if (state === 'unchanged' && mark.isNew) {
      if (mark.token !== null) await undoing.call('EndRestore', { volume_id: volumeId, token: mark.token });
      // A call that has failed may have taken it: a driver answers the name of a snapshot with its id.
      const id = before ?? (await takeSnapshot(undoing, volumeId, mark.snapshotName));
      await undoing.call('DeleteSnapshot', { snapshot_id: id });
      return;
    }
  } finally {
    undoing.close();
  }
  const guarded = mark.token === null ? ', and nothing keeps it from being used' : '';
  const kept = before === null ? '' : `; snapshot ${before} has what it held before`;
  onNotice(`volume ${volumeId} is half restored${guarded}: run the same command again to finish${kept}`);
}

/** Why the driver cannot be asked for a delta from the snapshot of the backup; null if nothing is known against it. */
async function noBase({ driver: madeBy, snapshot }: Manifest, driver: CsiDriver): Promise<string | null> {
  const { name } = await driver.info();
  if (madeBy.name !== name) return `the backup was made with the driver ${madeBy.name}, and this is ${name}`;
  return (await isReplaced(snapshot, driver))
    ? `snapshot ${snapshot.id} of the driver is not the one that the backup is of: its creation time differs`
    : null;
}

/** `sizeBytes` is null if the driver reports no size. Throws NOT_FOUND if the driver has no such volume. */
async function findVolume(
  driver: CsiDriver,
  volumeId: string,
): Promise<{ sizeBytes: bigint | null; context: Message }> {
  const { controller } = await driver.info();
  const found = (volume: Message) => ({
    sizeBytes: BigInt(volume['capacity_bytes'] ?? 0) || null,
    context: (volume['volume_context'] ?? {}) as Message,
  });
  if (controller.has('GET_VOLUME'))
    return found((await driver.call('ControllerGetVolume', { volume_id: volumeId }))['volume']);
  const entries = await entriesOf(driver, 'ListVolumes', 'LIST_VOLUMES');
  if (entries === null) return { sizeBytes: null, context: {} };
  const entry = entries.find(({ volume }) => volume['volume_id'] === volumeId);
  if (entry !== undefined) return found(entry['volume']);
  throw CsiError.notFound(`the driver has no volume ${volumeId}: restore the backup to a new one, with --to volume`);
}

function assertLargeEnough({ volume }: Manifest, sizeBytes: bigint | null): void {
  if (sizeBytes === null || sizeBytes >= volume.sizeBytes) return;
  throw CsiError.failedPrecondition(
    `volume ${volume.id} has ${sizeBytes} bytes, and the backup ${volume.sizeBytes}: expand the volume first, or restore the backup ` +
      'to a new one, with --to volume',
  );
}

async function begin({ driver, command, isUnprotected }: InPlaceRequest, volumeId: string): Promise<Mark> {
  try {
    const { token, snapshot_name, is_new } = await driver.call('BeginRestore', { volume_id: volumeId, command });
    return { token: String(token), snapshotName: String(snapshot_name), isNew: is_new === true };
  } catch (thrown) {
    if (CsiError.from(thrown).code !== StatusCode.UNIMPLEMENTED) throw thrown;
    if (isUnprotected) {
      return { token: null, snapshotName: `before-restore-${randomBytes(8).toString('hex')}`, isNew: true };
    }
    throw CsiError.failedPrecondition(
      `this driver cannot keep others from volume ${volumeId} while it is half restored: see to it that nobody uses the volume ` +
        'before the command has succeeded, and give --unprotected',
      { cause: thrown },
    );
  }
}

/** Takes the snapshot, or finds the one that an earlier run has taken. Resolves to its id once it is ready. */
async function takeSnapshot(driver: CsiDriver, volumeId: string, name: string): Promise<string> {
  const request = { source_volume_id: volumeId, name };
  const take = async (): Promise<string | null> => {
    const { snapshot } = await driver.call('CreateSnapshot', request);
    return snapshot['ready_to_use'] === true ? String(snapshot['snapshot_id']) : null;
  };
  const taken = await pollUntil(take, { intervalMs: SNAPSHOT_POLL_MS, timeoutMs: SNAPSHOT_TIMEOUT_MS });
  if (taken !== null) return taken;
  throw CsiError.unavailable(
    `snapshot '${name}' of volume ${volumeId} is not ready to use; run the command again later`,
  );
}

/** Takes a snapshot of now. One of that name is left by an earlier run, and goes first. */
async function takeAgain(driver: CsiDriver, volumeId: string, name: string): Promise<string> {
  await driver.call('DeleteSnapshot', { snapshot_id: await takeSnapshot(driver, volumeId, name) });
  return takeSnapshot(driver, volumeId, name);
}
