/**
 * Gives each call for a pool a place and a thread that suit what it may wait for, so that calls which hang in the
 * kernel take no thread that others need.
 */
import { basename } from 'node:path';
import { errorCode } from '../../base/errors.js';
import type { CallPlaces } from './call-places.js';
import type { NativePool, NativeRunner, UnaryMethod } from './pool.js';

/**
 * What a call may wait for:
 * - look-up: a directory of a pool, or what the kernel knows of its devices. Writes nothing, waits for no volume.
 * - pool: the disk of a pool, which all its volumes share, or the attaching of a device.
 * - volume: the file system or the device of a volume, which a tenant, or a program that freezes it, can stop for ever.
 * - release: the same, by what ends the stop, or the volume's use; it gets past a call of the kind before.
 *
 * A call of the last two that is for no volume is for a pool.
 */
export type Kind = 'look-up' | 'pool' | 'volume' | 'release';

export const KINDS: Readonly<Record<UnaryMethod, Kind>> = {
  openDirectories: 'look-up',
  listDirectory: 'look-up',
  fileState: 'look-up',
  loopFind: 'look-up',
  loopList: 'look-up',
  dmVersion: 'look-up',
  dmHasTarget: 'look-up',
  dmFind: 'look-up',
  dmList: 'look-up',
  thinPoolStatus: 'look-up',
  thinStatus: 'look-up',
  changeListHead: 'look-up',
  tryLock: 'look-up',
  readDirectory: 'look-up',
  readText: 'look-up',
  entryOf: 'look-up',
  spaceOf: 'look-up',
  loopAttach: 'pool',
  refuseDiscards: 'pool',
  endUnsafeDirectIo: 'pool',
  probeReflink: 'pool',
  createSparseFile: 'pool',
  writeText: 'pool',
  renameFile: 'pool',
  linkFile: 'pool',
  unlinkFile: 'pool',
  makeDirectory: 'pool',
  makeSubvolume: 'pool',
  removeSubvolumeCopy: 'pool',
  // Freeing the extents of a large file takes seconds, but no other volume's writer can prolong it.
  removeFile: 'pool',
  buildChangeList: 'pool',
  buildThinList: 'pool',
  verifyChangeLists: 'pool',
  joinChangeLists: 'pool',
  createThinBookmark: 'pool',
  verifyThinBookmark: 'pool',
  thinSuperblock: 'pool',
  thinDevices: 'pool',
  thinDelta: 'pool',
  thinMessages: 'pool',
  dmCreate: 'pool',
  // At most a minute, by its own limit.
  dmWait: 'pool',
  // These make mounts, and write nothing to the file system of a volume.
  makeTarget: 'pool',
  bindMount: 'pool',
  setMountAttributes: 'pool',
  // The kernel lets nobody write to a frozen file system, and growing it writes.
  growFileSystem: 'volume',
  // FIFREEZE waits for writers, and FICLONE holds the file for as long as it has extents.
  takeSnapshots: 'volume',
  cloneVolume: 'volume',
  cloneFile: 'volume',
  // They wait for the clone that holds the file.
  countExtents: 'volume',
  growFile: 'volume',
  allocateFile: 'volume',
  // Replays a journal, which takes minutes.
  mountFileSystem: 'volume',
  flush: 'volume',
  // These hold the device's queue, and wait for what is in it.
  loopResize: 'volume',
  setLoopDirectIo: 'volume',
  dmReload: 'volume',
  dmSuspend: 'volume',
  takeThinSnapshots: 'volume',
  thaw: 'release',
  thawDevice: 'release',
  dmResume: 'release',
  // Writes the file system back, which takes minutes.
  unmountLayer: 'release',
  loopDetach: 'release',
  loopDetachUnmounted: 'release',
  dmRemove: 'release',
  // What else ends a publication.
  removeTarget: 'release',
  setDeviceReadOnly: 'release',
};

interface Lane {
  /** Other pools have them too, but there is one for each place. */
  threads: Pick<NativePool, 'run'>;
  places: CallPlaces;
}

export type Lanes = Readonly<Record<Kind, Lane>>;

export class DeviceThreads implements NativeRunner {
  constructor(private readonly lanes: Lanes) {}

  readonly run: NativeRunner['run'] = async (method, request, volumes = []) => {
    const kind = KINDS[method];
    const isOfVolume = kind === 'volume' || kind === 'release';
    const { threads, places } = this.lanes[isOfVolume && volumes.length === 0 ? 'pool' : kind];
    const work = () => threads.run(method, request);
    if (!isOfVolume) return places.hold(`${method}${objectOf(request)}`, [], work);
    const held = () => places.hold(method, volumes, work);
    if (method !== 'unmountLayer') return held();
    try {
      return await held();
    } catch (thrown) {
      // A call of ours keeps open what it works on. One that hung ends within moments after a thaw.
      const isOurs =
        errorCode(thrown) === 'EBUSY' && (await this.lanes.volume.places.outlast(volumes));
      if (!isOurs) throw thrown;
      return held();
    }
  };
}

/** For a message. What leads to a file of a pool is a number that means nothing later. */
function objectOf(request: unknown): string {
  const { root, path, finalPath, to, backingPath, name } = (request ?? {}) as Record<
    string,
    unknown
  >;
  const object = root ?? path ?? finalPath ?? to ?? backingPath ?? name;
  if (typeof object !== 'string') return '';
  return ` of ${object === root ? object : basename(object)}`;
}
