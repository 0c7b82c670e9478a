/**
 * What a node holds, for the commands that inspect it: its catalogue, its pools, and the kernel's uses of the pools.
 *
 * This code changes nothing, with or without a running plugin. It reads the catalogue and the ledgers from copies, and
 * pools as files and from device-mapper's status. It does not ask the plugin, because CSI knows no names, pools, files
 * or devices.
 */
import { existsSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { CsiError, errorCode, messageOf } from '../../base/errors.js';
import { settingsReader } from '../../base/settings/reader.js';
import { parseDirectory } from '../../base/settings/values.js';
import { type MountEntry, mountsAt, mountsOfDevice, readMountInfo } from '../../base/system/mountinfo.js';
import { type DirectoryFile, filesIn } from '../backends/directory-files.js';
import { poolOwner, readIdentity } from '../backends/pool-claim.js';
import { OpenDirectories } from '../backends/reflink/open-directories.js';
import { PoolLayout, poolUuidIn } from '../backends/reflink/pool-layout.js';
import { poolListing } from '../backends/reflink/pool-listing.js';
import { ledgerContents } from '../backends/thin/ledger/ledger-contents.js';
import { DEVICE_PREFIX, PoolNames } from '../backends/thin/pool/pool-names.js';
import { type CatalogueContents, catalogueContents } from '../catalogue/contents.js';
import type { SnapshotRecord, VolumeRecord } from '../catalogue/records.js';
import { PROPAGATION, SETTINGS } from '../config/config.js';
import { type PoolConfig, parsePools } from '../config/pools.js';
import type { PropagationMode } from '../host/propagation.js';
import type { LoopDevice } from '../native/addon.js';
import type { DmDevice, ThinPoolStatus } from '../native/dm-addon.js';
import { onThisThread } from '../native/this-thread.js';

/** The errors of opening the control device on a kernel without device-mapper. */
const WITHOUT_DEVICE_MAPPER = ['ENOENT', 'ENXIO', 'ENODEV'];

export interface NodeSettings {
  stateDirectory: string;
  pools: readonly PoolConfig[];
  mountPropagation: PropagationMode;
}

/** The settings of the plugin, as far as inspection needs them. @throws ConfigError */
export function nodeSettings(stateDir: string | undefined, env = process.env): NodeSettings {
  const stateDirectory = stateDirectoryOf(stateDir, env);
  return {
    stateDirectory,
    pools: parsePools(env['BLOCKDELTA_POOLS'] || undefined, stateDirectory),
    mountPropagation: settingsReader(SETTINGS, env).choice('BLOCKDELTA_MOUNT_PROPAGATION', PROPAGATION),
  };
}

/** The given state directory, or the one in the plugin's settings. @throws ConfigError */
export function stateDirectoryOf(given: string | undefined, env = process.env): string {
  const name = 'BLOCKDELTA_STATE_DIR';
  return given ?? parseDirectory(name, env[name] || SETTINGS[name].fallback);
}

/** A volume or snapshot as the pool has it. */
export interface HeldObject {
  id: string;
  sizeBytes: bigint;
  /** The space that the object occupies; null if only the pool's metadata has this number. */
  usedBytes: bigint | null;
  /** The path of the object's file; null for a thin device. */
  path: string | null;
}

export interface PoolView {
  name: string;
  kind: 'reflink' | 'embedded reflink' | 'thin';
  directory: string;
  /** The directory with the volumes: `directory` itself, or the place where the image is mounted. */
  root: string;
  /** The pool's own uuid; null if it is unknown. */
  uuid: string | null;
  /** The uuid of the catalogue that the pool belongs to; null if no catalogue has claimed the pool. */
  owner: string | null;
  /** Why the pool cannot be inspected; null if it can be. With a problem, `volumes` and `snapshots` may lack objects. */
  problem: string | null;
  /** The only problem is that no plugin has mounted or activated the pool. */
  isInactive: boolean;
  totalBytes: bigint | null;
  freeBytes: bigint | null;
  volumes: HeldObject[];
  snapshots: HeldObject[];
  /** Paths of files that an interrupted call has left. */
  temporary: string[];
  /** Paths of copies of the subvolume `volumes` that an interrupted call has left, on btrfs. */
  copies: string[];
  /** Paths of entries that the plugin did not create. */
  foreign: string[];
  thin: { names: PoolNames; status: ThinPoolStatus } | null;
}

export interface AttachedDevice {
  pool: string;
  volumeId: string;
  path: string;
  readOnly: boolean;
  mounts: MountEntry[];
}

export interface NodeView extends NodeSettings {
  catalogue: CatalogueContents;
  pools: readonly PoolConfig[];
  views: PoolView[];
  mounts: MountEntry[];
  loops: LoopDevice[];
  /** Names of device-mapper devices with the plugin's prefix; empty if the kernel has no device-mapper. */
  dmDevices: string[];
  attached: AttachedDevice[];
}

/** @throws CsiError if the catalogue or the devices cannot be read */
export async function inspectNode(settings: NodeSettings): Promise<NodeView> {
  const file = join(settings.stateDirectory, 'catalogue.sqlite');
  const before = await catalogueContents(file);
  const mounts = await readMountInfo();
  const inspectPools = (): Promise<PoolView[]> => Promise.all(settings.pools.map((pool) => inspectPool(pool, mounts)));
  const found = await inspectPools();
  const catalogue = unchangedBetween(before, await catalogueContents(file));
  const views = await withoutRemoved(found, catalogue, inspectPools);
  const { devices: loops } = await asked('loop devices', onThisThread.run('loopList', {}));
  const dmDevices = await activeDmDevices();
  const partial = { ...settings, catalogue, views, mounts, loops, dmDevices };
  const attached: AttachedDevice[] = [];
  for (const view of views) attached.push(...(await attachedOf(view, partial)));
  return { ...partial, attached };
}

/**
 * A running plugin writes an object's row before it makes the storage, and removes the row after the storage. So an
 * object that is missing in its pool is lost only if its row was ready both before and after the pools were read. A row
 * that differs between the two reads counts as the row of a call in progress.
 */
function unchangedBetween(before: CatalogueContents, after: CatalogueContents): CatalogueContents {
  return {
    ...after,
    volumes: merged(before.volumes, after.volumes, ({ volumeId }) => volumeId),
    snapshots: merged(before.snapshots, after.snapshots, ({ snapshotId }) => snapshotId),
  };
}

function merged<Row extends VolumeRecord | SnapshotRecord>(
  before: readonly Row[],
  after: readonly Row[],
  idOf: (row: Row) => string,
): Row[] {
  const earlier = new Map(before.map((row) => [idOf(row), row]));
  const later = new Set(after.map(idOf));
  return [
    ...after.map((row) =>
      row.state === 'ready' && earlier.get(idOf(row))?.state !== 'ready' ? { ...row, state: 'creating' as const } : row,
    ),
    ...before.filter((row) => !later.has(idOf(row))).map((row) => ({ ...row, state: 'deleting' as const })),
  ];
}

class InactivePool extends Error {}

async function inspectPool(pool: PoolConfig, mounts: readonly MountEntry[]): Promise<PoolView> {
  const { name, directory } = pool;
  const image = join(directory, 'pool.img');
  const isEmbedded = pool.kind === 'reflink' && existsSync(image);
  const view: PoolView = {
    name,
    directory,
    owner: null,
    kind: isEmbedded ? 'embedded reflink' : pool.kind,
    root: isEmbedded ? join(directory, 'mount') : directory,
    uuid: null,
    problem: null,
    isInactive: false,
    totalBytes: null,
    freeBytes: null,
    thin: null,
    volumes: [],
    snapshots: [],
    temporary: [],
    copies: [],
    foreign: [],
  };
  try {
    if (!existsSync(directory)) throw new Error(`${directory} does not exist`);
    view.owner = await poolOwner(onThisThread, directory);
    if (pool.kind === 'thin') await inspectThin(view);
    else await inspectReflink(view, isEmbedded, mounts);
  } catch (thrown) {
    view.isInactive = thrown instanceof InactivePool;
    view.problem = messageOf(thrown);
  }
  return view;
}

async function inspectReflink(view: PoolView, isEmbedded: boolean, mounts: readonly MountEntry[]): Promise<void> {
  const { root } = view;
  if (isEmbedded && mountsAt(mounts, root).length === 0) {
    throw new InactivePool(`its image is not mounted at ${root}; the plugin mounts it when it starts`);
  }
  const layout = new PoolLayout(root);
  const identity = await readIdentity(onThisThread, layout.identityFile);
  if (identity === null) throw new Error(`${root} holds no pool (it has no pool-id)`);
  view.uuid = poolUuidIn(identity, root);
  const { totalBytes, freeBytes } = await onThisThread.run('spaceOf', { path: root });
  Object.assign(view, { totalBytes, freeBytes });
  const opened = await OpenDirectories.open(onThisThread, layout);
  try {
    const { volumes, snapshots, ...leftovers } = await poolListing(
      { native: onThisThread, opened, named: layout },
      filesIn,
    );
    const held = (directory: string) => (file: DirectoryFile) => ({
      id: file.name,
      sizeBytes: file.sizeBytes,
      usedBytes: file.allocatedBytes,
      path: join(directory, file.name),
    });
    view.volumes = volumes.map(held(layout.volumes)).sort(byId);
    view.snapshots = snapshots.map(held(layout.snapshots)).sort(byId);
    for (const paths of Object.values(leftovers)) paths.sort();
    Object.assign(view, leftovers);
  } catch (thrown) {
    throw opened.withRealPath(thrown);
  } finally {
    opened.close();
  }
}

/** Sorts by id, so that reports are the same each time: a directory has no order. */
const byId = (a: HeldObject, b: HeldObject): number => (a.id < b.id ? -1 : 1);

async function inspectThin(view: PoolView): Promise<void> {
  const { pool, devices } = await ledgerContents(join(view.directory, 'pool.sqlite'));
  view.uuid = pool.uuid;
  const names = new PoolNames(pool.uuid);
  for (const { objectId, kind, state, sizeBytes } of devices) {
    const held = { volume: view.volumes, snapshot: view.snapshots, replica: null, seal: null, opened: null }[kind];
    if (state === 'live') held?.push({ id: objectId, sizeBytes, usedBytes: null, path: null });
  }
  const { status } = await onThisThread.run('thinPoolStatus', { name: names.pool, commit: false });
  if (status === null) {
    throw new InactivePool(`its device ${names.pool} is not active; the plugin activates it when it starts`);
  }
  view.thin = { names, status };
  if (status.mode === 'fail' || status.mode === 'error') throw new Error(`its mode is ${status.mode}`);
  view.totalBytes = status.totalDataBlocks * pool.dataBlockBytes;
  view.freeBytes = (status.totalDataBlocks - status.usedDataBlocks) * pool.dataBlockBytes;
}

async function attachedOf(
  view: PoolView,
  { loops, dmDevices, mounts }: Pick<NodeView, 'loops' | 'dmDevices' | 'mounts'>,
): Promise<AttachedDevice[]> {
  const devices: AttachedDevice[] = [];
  const add = (volumeId: string, { path, readOnly }: Pick<LoopDevice, 'path' | 'readOnly'>) => {
    const mounted = mountsOfDevice(mounts, statSync(path).rdev);
    devices.push({ pool: view.name, volumeId, path, readOnly, mounts: mounted });
  };
  for (const { id, path } of view.volumes) {
    const name = view.thin?.names.volume(id);
    if (name !== undefined) {
      const device = dmDevices.includes(name) ? await dmDevice(name) : null;
      if (device !== null && view.thin?.names.isOurs(device)) add(id, device);
      continue;
    }
    const file = path === null ? null : (await onThisThread.run('entryOf', { path })).entry;
    const loop = loops.find(
      ({ backingDevice, backingInode }) => backingDevice === file?.device && backingInode === file.inode,
    );
    if (loop !== undefined) add(id, loop);
  }
  return devices;
}

async function activeDmDevices(): Promise<NodeView['dmDevices']> {
  try {
    const { devices } = await onThisThread.run('dmList', { prefix: DEVICE_PREFIX });
    return devices.map(({ name }) => name);
  } catch (thrown) {
    if (WITHOUT_DEVICE_MAPPER.includes(errorCode(thrown) ?? '')) return [];
    return asked('device-mapper devices', Promise.reject(thrown));
  }
}

/** @throws CsiError if device-mapper does not answer */
export async function dmDevice(name: string): Promise<DmDevice | null> {
  return (await asked('device-mapper devices', onThisThread.run('dmFind', { name }))).device;
}

/** FAILED_PRECONDITION if the list cannot be read: an empty list would say that nothing is in use. */
async function asked<T>(what: string, answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch (thrown) {
    throw CsiError.failedPrecondition(
      `the ${what} of this machine cannot be listed, so nothing can be said of what is in use: ${messageOf(thrown)}; ` +
        'run this as root, where /sys and /dev are those of the host',
      { cause: thrown },
    );
  }
}

/** The ids of all volumes, snapshots and retained bases that have a row. */
export function knownIds({ volumes, snapshots, retainedBases }: CatalogueContents): Set<string> {
  return new Set([
    ...retainedBases.map(({ snapshotId }) => snapshotId),
    ...volumes.map(({ volumeId }) => volumeId),
    ...snapshots.map(({ snapshotId }) => snapshotId),
  ]);
}

/**
 * Drops objects that were created after the first read of the catalogue and removed before the second, whose rows neither
 * read has. An object without a row that is found again later existed during the second read, so its row is missing.
 */
export async function withoutRemoved(
  views: PoolView[],
  catalogue: CatalogueContents,
  lookAgain: () => Promise<PoolView[]>,
): Promise<PoolView[]> {
  const known = knownIds(catalogue);
  const hasRow = ({ id }: HeldObject): boolean => known.has(id);
  if (views.every(({ volumes, snapshots }) => [...volumes, ...snapshots].every(hasRow))) return views;
  const later = new Map((await lookAgain()).map((view) => [view.name, view]));
  return views.map((view) => {
    const now = later.get(view.name);
    if (now === undefined || now.problem !== null) return view;
    const held = new Set([...now.volumes, ...now.snapshots].map(({ id }) => id));
    const stays = (object: HeldObject): boolean => hasRow(object) || held.has(object.id);
    return {
      ...view,
      volumes: view.volumes.filter(stays),
      snapshots: view.snapshots.filter(stays),
    };
  });
}

/** The trimmed text of a file; null if it cannot be read. */
export function textOf(file: string): string | null {
  try {
    return readFileSync(file, 'utf8').trim();
  } catch {
    return null;
  }
}

/** The used share of the pool in percent, rounded up, so that only an empty pool shows 0. */
export function usedPercent({ totalBytes, freeBytes }: PoolView): number | null {
  if (totalBytes === null || freeBytes === null || totalBytes === 0n) return null;
  return Math.ceil(Number(((totalBytes - freeBytes) * 1000n) / totalBytes) / 10);
}
