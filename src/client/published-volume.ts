/**
 * Volumes that a command needs for a while, as block devices: a snapshot restored to a temporary volume that is
 * read, or a new volume that is written. Goes the way of a conforming orchestrator.
 *
 * Each one has a directory with its paths and a record of what was requested, written before each step, so that a
 * later command finds and removes what a killed one has left. Nothing is removed but what such a record names.
 */
import { mkdir, mkdtemp, readdir, readFile, rename, rm, rmdir, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CsiError, StatusCode } from '../base/errors.js';
import { isRunning, ownIdentity, type ProcessIdentity } from '../base/process-identity.js';
import type { CsiDriver, Message } from './driver.js';
import type { SnapshotInfo } from './snapshot-info.js';

export interface PublishedVolume {
  readonly volumeId: string;
  /** A block device. */
  readonly devicePath: string;
  /** 0: the driver does not say. */
  readonly sizeBytes: bigint;
  /** The volume stays when it is closed. */
  keep(): Promise<void>;
  /** Unpublishes the volume and deletes it, unless it is kept. */
  close(): Promise<void>;
}

const PREFIX = 'blockdelta-volume-';
/** Undoing must end, also beside a driver that is gone. */
const CLOSE_TIMEOUT_MS = 120_000;
const CAPABILITY = { block: {}, access_mode: { mode: 'SINGLE_NODE_WRITER' } };

/** What was requested, and what is known of the volume. */
interface VolumeRecord {
  /** The process that uses it. */
  user: ProcessIdentity;
  socketPath: string;
  createRequest: Message;
  /** Null before CreateVolume was answered: then it may exist all the same. */
  volumeId: string | null;
  /** Whether the volume goes when it is closed. */
  isTemporary: boolean;
}

/** A temporary volume with the content of the snapshot, published read-only. */
export async function publishSnapshot(
  driver: CsiDriver,
  snapshot: Pick<SnapshotInfo, 'snapshotId' | 'sizeBytes'>,
): Promise<PublishedVolume> {
  const source = { volume_content_source: { snapshot: { snapshot_id: snapshot.snapshotId } } };
  return publish(driver, { sizeBytes: snapshot.sizeBytes, source, name: null });
}

/**
 * A new volume that reads as zeros, published to be written. The name must be one that was never used: the driver would
 * answer with an existing volume of that name.
 */
export async function publishNewVolume(
  driver: CsiDriver,
  { name, sizeBytes }: { name: string; sizeBytes: bigint },
): Promise<PublishedVolume> {
  return publish(driver, { sizeBytes, source: {}, name });
}

/**
 * Removes what killed commands have left of their use of this driver, and returns the ids of the volumes. The
 * driver must be ready.
 */
export async function removeLeftVolumes(driver: CsiDriver, parent = tmpdir()): Promise<string[]> {
  const removed: string[] = [];
  for (const name of await readdir(parent)) {
    if (!name.startsWith(PREFIX)) continue;
    const directory = join(parent, name);
    const record = await readRecord(directory);
    if (record === null || isRunning(record.user) || record.socketPath !== driver.socketPath)
      continue;
    const volumeId = await undo(driver, directory, record);
    if (volumeId !== null && record.isTemporary) removed.push(volumeId);
  }
  return removed;
}

interface Wanted {
  sizeBytes: bigint;
  source: Message;
  /** Null: the volume is temporary. */
  name: string | null;
}

async function publish(
  driver: CsiDriver,
  { sizeBytes, source, name }: Wanted,
): Promise<PublishedVolume> {
  const info = await driver.info();
  if (info.nodeId === '') {
    throw CsiError.failedPrecondition(
      `${driver.socketPath} serves no Node service, so no volume can be published here; use the socket of the node's plugin`,
    );
  }
  const directory = await mkdtemp(join(tmpdir(), PREFIX));
  const record: VolumeRecord = {
    user: ownIdentity(),
    socketPath: driver.socketPath,
    createRequest: {
      name: name ?? directory.slice(tmpdir().length + 1),
      ...(sizeBytes === 0n ? {} : { capacity_range: { required_bytes: String(sizeBytes) } }),
      volume_capabilities: [CAPABILITY],
      ...source,
      ...topologyOf(info),
    },
    volumeId: null,
    isTemporary: true,
  };
  const close = async (): Promise<void> => {
    const undoing = driver.withSignal(AbortSignal.timeout(CLOSE_TIMEOUT_MS));
    try {
      await undo(undoing, directory, record);
    } finally {
      undoing.close();
    }
  };
  try {
    await writeRecord(directory, record);
    const volume = await create(driver, record);
    await writeRecord(directory, record);
    const devicePath = await expose(driver, directory, volume, name === null);
    const capacity = BigInt(volume['capacity_bytes'] ?? 0);
    const keep = async (): Promise<void> => {
      record.isTemporary = false;
      await writeRecord(directory, record);
    };
    const volumeId = String(volume['volume_id']);
    return { volumeId, devicePath, sizeBytes: capacity, keep, close };
  } catch (thrown) {
    await close().catch(() => undefined);
    throw thrown;
  }
}

function topologyOf({ plugin, topology }: Awaited<ReturnType<CsiDriver['info']>>): Message {
  if (topology === null || !plugin.has('VOLUME_ACCESSIBILITY_CONSTRAINTS')) return {};
  return { accessibility_requirements: { requisite: [topology], preferred: [topology] } };
}

/** Sets the id in the record, which the caller writes. */
async function create(driver: CsiDriver, record: VolumeRecord): Promise<Message> {
  const { volume } = await driver.call('CreateVolume', record.createRequest);
  record.volumeId = String((volume as Message)['volume_id']);
  return volume as Message;
}

/** Resolves to the path of the device. */
async function expose(
  driver: CsiDriver,
  directory: string,
  volume: Message,
  readonly: boolean,
): Promise<string> {
  const { controller, node, nodeId } = await driver.info();
  const common: Message = {
    volume_id: volume['volume_id'],
    volume_capability: CAPABILITY,
    volume_context: volume['volume_context'] ?? {},
  };
  if (controller.has('PUBLISH_UNPUBLISH_VOLUME')) {
    const request = { ...common, node_id: nodeId, readonly };
    const { publish_context: context } = await driver.call('ControllerPublishVolume', request);
    common['publish_context'] = context ?? {};
  }
  if (node.has('STAGE_UNSTAGE_VOLUME')) {
    common['staging_target_path'] = stagingIn(directory);
    await mkdir(stagingIn(directory), { recursive: true });
    await driver.call('NodeStageVolume', common);
  }
  await driver.call('NodePublishVolume', { ...common, target_path: targetIn(directory), readonly });
  return targetIn(directory);
}

const stagingIn = (directory: string): string => join(directory, 'staging');
const targetIn = (directory: string): string => join(directory, 'device');
const recordIn = (directory: string): string => join(directory, 'record.json');

/** Can be repeated. Resolves to the id of the volume; null: it was never created. */
async function undo(
  driver: CsiDriver,
  directory: string,
  record: VolumeRecord,
): Promise<string | null> {
  const { controller, node, nodeId } = await driver.info();
  const volumeId = record.volumeId ?? (await idOf(driver, record));
  if (volumeId !== null) {
    const id = { volume_id: volumeId };
    await driver.call('NodeUnpublishVolume', { ...id, target_path: targetIn(directory) });
    if (node.has('STAGE_UNSTAGE_VOLUME')) {
      await driver.call('NodeUnstageVolume', { ...id, staging_target_path: stagingIn(directory) });
    }
    if (controller.has('PUBLISH_UNPUBLISH_VOLUME')) {
      await driver.call('ControllerUnpublishVolume', { ...id, node_id: nodeId });
    }
    if (record.isTemporary) await driver.call('DeleteVolume', id);
  }
  // rmdir only: what a driver has left mounted there must survive.
  for (const path of [stagingIn(directory), targetIn(directory)]) {
    await rmdir(path).catch(() => undefined);
  }
  await rm(recordIn(directory), { force: true });
  await rmdir(directory).catch(() => undefined);
  return volumeId;
}

/** The same CreateVolume again names the volume if it exists; null: the driver does not make it. */
async function idOf(driver: CsiDriver, record: VolumeRecord): Promise<string | null> {
  try {
    await create(driver, record);
    return record.volumeId;
  } catch (thrown) {
    const { code } = CsiError.from(thrown);
    // The snapshot is gone, or something of that name was never made by this request.
    const isRefused = code === StatusCode.NOT_FOUND || code === StatusCode.ALREADY_EXISTS;
    if (isRefused || code === StatusCode.RESOURCE_EXHAUSTED) return null;
    throw thrown;
  }
}

async function readRecord(directory: string): Promise<VolumeRecord | null> {
  try {
    return JSON.parse(await readFile(recordIn(directory), 'utf8')) as VolumeRecord;
  } catch {
    // Of another user, or killed before the first step.
    return null;
  }
}

async function writeRecord(directory: string, record: VolumeRecord): Promise<void> {
  const path = recordIn(directory);
  await writeFile(`${path}.tmp`, JSON.stringify(record), { mode: 0o600, flush: true });
  await rename(`${path}.tmp`, path);
}
