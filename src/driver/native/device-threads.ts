/**
 * Gives each call a place and a thread that suit what the call may wait for, so that calls that hang in the kernel take no
 * thread that other calls need.
 */
import { basename } from 'node:path';
import { errorCode } from '../../base/errors.js';
import type { CallPlaces } from './call-places.js';
import type { NativePool, NativeRunner, UnaryMethod } from './pool.js';

/**
 * What a call may wait for:
 * - node: what the kernel knows about the node's paths, mounts and devices. Waits for no pool and no volume.
 * - look-up: a directory of a pool, or what the kernel knows about its devices. Writes nothing, and waits for no volume.
 * - pool: the disk of a pool, which all its volumes share, or the attaching of a device.
 * - volume: the file system or the device of a volume, which a tenant, or a program that freezes it, can stop forever.
 * - release: the same, for a call that ends the stop or the volume's use. It gets past hung calls of the kind `volume`.
 *
 * A call of the kind `volume` or `release` that is for no volume counts as `pool`.
 */
export type Kind = 'node' | 'look-up' | 'pool' | 'volume' | 'release';

export const KINDS: Readonly<Record<UnaryMethod, Kind>> = {
  look: 'node',
  attributes: 'node',
  mountsAround: 'node',
  openDirectories: 'look-up',
  listDirectory: 'look-up',
  fileState: 'look-up',
  loopFind: 'look-up',
  findAndLook: 'look-up',
  loopList: 'look-up',
  dmVersion: 'look-up',
  dmHasTarget: 'look-up',
  dmFind: 'look-up',
  dmList: 'look-up',
  thinPoolStatus: 'look-up',
  changeListHead: 'look-up',
  tryLock: 'look-up',
  readText: 'look-up',
  entryOf: 'look-up',
  readParts: 'pool',
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
  thinExclusive: 'pool',
  thinMessages: 'pool',
  dmCreate: 'pool',
  // Waits a minute at most, by its own limit.
  // These make mounts, and write nothing to the file system of a volume.
  makeTarget: 'pool',
  bindMount: 'pool',
  setMountAttributes: 'pool',
  // The kernel lets nobody write to a frozen file system, and growing it writes.
  growFileSystem: 'volume',
  // FIFREEZE waits for writers, and the more extents a file has, the longer FICLONE holds the file.
  takeSnapshots: 'volume',
  cloneVolume: 'volume',
  cloneFile: 'volume',
  freezeFile: 'volume',
  punchDevice: 'volume',
  // These wait for the clone that holds the file.
  countExtents: 'volume',
  countExclusiveBytes: 'volume',
  growFile: 'volume',
  allocateFile: 'volume',
  // Replays a journal, which takes minutes.
  mountFileSystem: 'volume',
  flush: 'volume',
  // These stop the device's queue, and wait for the requests in it.
  loopResize: 'volume',
  setAttribute: 'volume',
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
  // These also end a publication.
  removeTarget: 'release',
  setDeviceReadOnly: 'release',
};

interface Lane {
  /** All pools share these threads, but there is a thread for each place. */
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
      // A call of ours may keep the file system open. A call that hung ends within moments after a thaw.
      const isOurs = errorCode(thrown) === 'EBUSY' && (await this.lanes.volume.places.outlast(volumes));
      if (!isOurs) throw thrown;
      return held();
    }
  };
}

/**
 * The object of a request, for a message. Without its directory: the path to a file of a pool leads through the number of a
 * descriptor, which means nothing later.
 */
function objectOf(request: unknown): string {
  const { root, path, finalPath, to, backingPath, name } = (request ?? {}) as Record<string, unknown>;
  const object = root ?? path ?? finalPath ?? to ?? backingPath ?? name;
  if (typeof object !== 'string') return '';
  return ` of ${object === root ? object : basename(object)}`;
}
