/**
 * Finds the orphans that interrupted runs have left on a node, by proof and not by likeness. A removal renews the proof.
 *
 * No volume's content depends on an orphan: orphans are unfinished files, and devices that nothing uses. A volume or
 * snapshot without a row in the catalogue is never an orphan: it proves that rows were lost, and may be all that is
 * left of somebody's data.
 */
import { constants, readdirSync, statSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { insteadOf } from '../../base/errors.js';
import type { MountEntry } from '../../base/system/mountinfo.js';
import { isObjectName } from '../backends/reflink/pool-layout.js';
import type { PoolNames } from '../backends/thin/pool/pool-names.js';
import type { SnapshotRecord, VolumeRecord } from '../catalogue/records.js';
import { hiddenMountReason } from '../host/propagation.js';
import { detachOpenLoop } from '../native/block-device.js';
import { onThisThread } from '../native/this-thread.js';
import { otherUse } from '../usage/other-uses.js';
import { compareObjects, type Difference, snapshotObject, volumeObject } from '../volumes/pool-comparison.js';
import { type AttachedDevice, dmDevice, knownIds, type NodeView, type PoolView, textOf } from './node-view.js';

export interface Orphan {
  kind:
    | 'unfinished file'
    | 'copy of a subvolume'
    | 'loop device of a volume'
    | 'loop device of a removed volume'
    | 'loop device of a pool image'
    | 'device of a thin volume';
  pool: string;
  /** Path of the file or device. */
  object: string;
  /** Why the object belongs to the plugin, and why nothing needs it. */
  proof: string;
  /** Checks again what may have changed, and removes the object. Rejects with the reason if the object stays. */
  remove(): Promise<unknown>;
}

/** An object or a pool that is left alone, and the reason. */
export interface Kept {
  pool: string;
  object: string;
  reason: string;
}

export interface Orphans {
  orphans: Orphan[];
  kept: Kept[];
}

export async function findOrphans(node: NodeView): Promise<Orphans> {
  const kept: Kept[] = [];
  const orphans: Orphan[] = [];
  const views = node.views.filter((view) => {
    const reason = notOurs(node, view);
    if (reason !== null) kept.push({ pool: view.name, object: view.directory, reason });
    return reason === null;
  });
  // A catalogue that has lost rows may have lost the rows that say where a volume is published.
  let lacksRows = false;
  for (const view of views) {
    const unknown = differencesIn(node, view).filter(({ kind }) => kind === 'unknown');
    const reason = 'blockdelta did not create it';
    kept.push(...view.foreign.map((object) => ({ pool: view.name, object, reason })));
    kept.push(...unknown.map(({ id }) => withoutRow(view, id)));
    lacksRows ||= unknown.length > 0;
    if (view.problem !== null) continue;
    orphans.push(...view.temporary.map((path) => temporaryFile(view, path)));
    orphans.push(...view.copies.map((path) => subvolumeCopy(view, path)));
  }
  for (const view of views) {
    const devices =
      view.problem === null
        ? [...(await idleDevices(node, view)), ...(await removedLoops(node, view))]
        : await imageDevice(view);
    if (!lacksRows) orphans.push(...devices);
    else {
      const reason = 'the catalogue has lost rows, so nothing proves that no pod uses it';
      kept.push(...devices.map(({ pool, object }) => ({ pool, object, reason })));
    }
  }
  return { orphans, kept };
}

/** Why the pool does not belong to this catalogue; null if the records of both sides say that it does. */
function notOurs({ catalogue }: NodeView, view: PoolView): string | null {
  if (view.owner !== catalogue.uuid) {
    return `the pool belongs to ${view.owner === null ? 'no catalogue' : `the catalogue ${view.owner}`}, not to this one`;
  }
  const recorded = catalogue.pools.find(({ name }) => name === view.name)?.uuid;
  if (view.uuid === null || view.uuid === recorded) return null;
  return `the pool has the identity ${view.uuid}, and the catalogue knows it as ${recorded ?? '(none)'}`;
}

/** How a pool differs from the catalogue. If the pool has a problem, only `unknown` objects mean something. */
export function differencesIn({ catalogue }: NodeView, view: PoolView): Difference[] {
  const known = knownIds(catalogue);
  const isReady = ({ pool, state }: VolumeRecord | SnapshotRecord): boolean => pool === view.name && state === 'ready';
  return compareObjects(
    [...view.volumes, ...view.snapshots],
    [
      ...catalogue.volumes.filter(isReady).map(volumeObject),
      ...catalogue.snapshots.filter(isReady).map(snapshotObject),
    ],
    (id) => known.has(id),
  );
}

/** A volume or snapshot that the catalogue does not know. */
export function withoutRow(view: PoolView, id: string): Kept {
  const held = [...view.volumes, ...view.snapshots].find((each) => each.id === id);
  return {
    pool: view.name,
    object: held?.path ?? id,
    reason: 'it holds data and the catalogue has no row of it: the catalogue has lost rows',
  };
}

function temporaryFile(view: PoolView, path: string): Orphan {
  return {
    kind: 'unfinished file',
    pool: view.name,
    object: path,
    proof:
      'its name is that of a file that a call was making; it gets its own name before the call answers, and no ' +
      'plugin runs that could be making it',
    remove: () => onThisThread.run('removeFile', { path }),
  };
}

function subvolumeCopy(view: PoolView, path: string): Orphan {
  return {
    kind: 'copy of a subvolume',
    pool: view.name,
    object: path,
    proof:
      'its name is that of a copy of the subvolume of volumes which a call was cloning from; the call removes it ' +
      'before it answers, and no plugin runs that could be cloning from it',
    remove: () => onThisThread.run('removeSubvolumeCopy', { path }),
  };
}

/**
 * Judges the use as DeleteVolume does: the record of a publication is enough; the record of a staging counts only if its
 * mount cannot be seen from here. A mount or a bound node counts even without a record: it may be about to be published.
 */
async function isUsed(
  { catalogue, mounts, mountPropagation }: NodeView,
  volume: VolumeRecord,
  { path: devicePath, readOnly }: AttachedDevice,
): Promise<boolean> {
  const { volumeId, sizeBytes } = volume;
  const isOfVolume = (use: { volumeId: string }): boolean => use.volumeId === volumeId;
  if (catalogue.publications.some(isOfVolume)) return true;
  for (const { resolvedPath, stagingPath } of catalogue.stagings.filter(isOfVolume)) {
    const path = resolvedPath ?? stagingPath;
    if ((await hiddenMountReason(path, mountPropagation, mounts)) !== null) return true;
  }
  const node = statSync(devicePath);
  const attachment = { devicePath, rdev: node.rdev, readOnly, sizeBytes };
  const view = { volume, attachment, node, mounts, poolFailure: null };
  return (await otherUse(view, [])) !== null;
}

/** The mounts in this mount namespace to which a device node is bound, as for raw volumes of pods. */
export const bindsOf = ({ mounts }: NodeView, device: string): MountEntry[] =>
  mounts.filter(({ fsType, root }) => fsType === 'devtmpfs' && root === `/${basename(device)}`);

/** Devices of ready volumes that nothing uses. */
async function idleDevices(node: NodeView, view: PoolView): Promise<Orphan[]> {
  const found: Orphan[] = [];
  for (const device of node.attached.filter(({ pool }) => pool === view.name)) {
    const record = node.catalogue.volumes.find(({ volumeId }) => volumeId === device.volumeId);
    if (record?.state !== 'ready' || (await isUsed(node, record, device))) continue;
    const names = view.thin?.names;
    const idle = await (names === undefined ? idleLoop(view, device) : idleThin(names, device));
    if (idle !== null) found.push({ pool: view.name, object: device.path, ...idle });
  }
  return found;
}

type Idle = Pick<Orphan, 'kind' | 'proof' | 'remove'>;

async function idleLoop(view: PoolView, device: AttachedDevice): Promise<Idle | null> {
  const { volumeId, path } = device;
  const backingPath = view.volumes.find(({ id }) => id === volumeId)?.path ?? null;
  if (backingPath === null || !(await isFree(path))) return null;
  return {
    kind: 'loop device of a volume',
    proof: `its backing file is volume ${volumeId} (device and inode), which is not published, and nothing has it mounted, bound or open exclusively`,
    remove: () => onThisThread.run('loopDetach', { backingPath, hint: null }),
  };
}

async function idleThin(names: PoolNames, { volumeId }: AttachedDevice): Promise<Idle | null> {
  const name = names.volume(volumeId);
  if ((await dmDevice(name))?.openCount !== 0) return null;
  return {
    kind: 'device of a thin volume',
    proof: `its device-mapper uuid names this pool and volume ${volumeId}, which is not published, and nobody has it mounted, bound or open`,
    remove: async () => {
      const device = await dmDevice(name);
      if (device === null) return;
      if (!names.isOurs(device) || device.openCount !== 0) throw new Error('it is in use now');
      await onThisThread.run('dmRemove', { name, deferred: false });
    },
  };
}

/** The loop device of the image of a pool that is not mounted. */
async function imageDevice(view: PoolView): Promise<Orphan[]> {
  if (view.kind !== 'embedded reflink') return [];
  const backingPath = join(view.directory, 'pool.img');
  const path = await onThisThread.run('loopFind', { backingPath, hint: null }).then(
    ({ device }) => device?.path,
    () => undefined,
  );
  if (path === undefined || !(await isFree(path))) return [];
  return [
    {
      kind: 'loop device of a pool image',
      pool: view.name,
      object: path,
      proof: `its backing file is ${backingPath} (device and inode) in a directory that this catalogue owns, and nothing has it mounted or open exclusively`,
      remove: () => onThisThread.run('loopDetach', { backingPath, hint: null }),
    },
  ];
}

const REMOVED = ' (deleted)';

/** Loop devices whose file in the pool's own directory was unlinked: no path leads to their content any more. */
async function removedLoops(node: NodeView, view: PoolView): Promise<Orphan[]> {
  if (view.kind === 'thin') return [];
  const found: Orphan[] = [];
  for (const name of readdirSync('/sys/block').filter((each) => each.startsWith('loop'))) {
    const volumeId = removedVolume(name, view);
    if (volumeId === null) continue;
    if (node.catalogue.volumes.some((volume) => volume.volumeId === volumeId)) continue;
    const device = `/dev/${name}`;
    if (bindsOf(node, device).length > 0 || !(await isFree(device))) continue;
    found.push({
      kind: 'loop device of a removed volume',
      pool: view.name,
      object: device,
      proof: `its backing file was ${join(view.root, 'volumes', volumeId)}, which was removed; the catalogue has no row of the volume, and nothing has the device mounted or open exclusively`,
      remove: () => detachRemoved(device, view, volumeId),
    });
  }
  return found;
}

/** The id of the removed volume that a loop device is attached to; null if it is attached to something else. */
function removedVolume(loop: string, view: PoolView): string | null {
  const file = textOf(`/sys/block/${loop}/loop/backing_file`) ?? '';
  const directory = `${join(view.root, 'volumes')}/`;
  if (!file.startsWith(directory) || !file.endsWith(REMOVED)) return null;
  const id = file.slice(directory.length, -REMOVED.length);
  return isObjectName(id) ? id : null;
}

/** An open descriptor keeps a loop device attached to its file, so the check and the detach concern the same file. */
async function detachRemoved(device: string, view: PoolView, volumeId: string): Promise<void> {
  const handle = await open(device, constants.O_RDONLY | constants.O_EXCL);
  try {
    if (removedVolume(basename(device), view) !== volumeId) throw new Error('it is attached to another file now');
    detachOpenLoop(handle, device);
  } finally {
    await handle.close();
  }
}

/** Whether nothing has the device mounted, in any namespace, or open exclusively. */
async function isFree(device: string): Promise<boolean> {
  const opening = open(device, constants.O_RDONLY | constants.O_EXCL);
  const opened = await opening.catch(insteadOf(['EBUSY', 'ENXIO', 'ENOENT'], null));
  await opened?.close();
  return opened !== null;
}
