/**
 * The metadata of one pool as `thin-delta` and `thin-ls` read it: the current trees or those of a metadata
 * snapshot, and whether they changed during a read.
 *
 * A pool in use frees nodes and reuses them, but never a node below a tree that is still current. Two
 * tests show whether a tree is current. The checksum of the superblock proves it for a metadata snapshot
 * and for any read within one commit. Across commits, the block of a device's root proves it for a device
 * that is not written to, as its root stays; for other devices it is only likely, because a freed root
 * may be allocated again in the same block. Knows nothing of printing.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { CsiError, SystemError } from '../../base/errors.js';
import type { NativeRunner } from '../native/pool.js';
import type { ThinAddon, ThinDeviceDetails, ThinMetadata, ThinSuperblock } from '../native/thin-addon.js';

/** Which metadata snapshot: none, the one that is held, or the one at exactly this block. */
export type SnapshotChoice = false | true | bigint;

type ThinDeltaAnswer = Extract<ReturnType<ThinAddon['thinDelta']>, { ok: true }>;
type ExclusiveBlocks = Extract<ReturnType<ThinAddon['thinExclusive']>, { ok: true }>['devices'];
type DeltaRequest = Omit<Parameters<ThinAddon['thinDelta']>[0], keyof ThinMetadata>;

/** Device ids have 24 bits. */
export const MAX_DEVICE_ID = 2 ** 24 - 1;
const DEVICES_PER_CALL = 65_536;
/** A pool commits once a second and at each flush of a device; a read takes a millisecond or two. */
const READ_ATTEMPTS = 50;
const PAUSE_MS = 2;

const RESERVE_SNAPSHOT =
  'reserve a metadata snapshot (dmsetup message POOL 0 reserve_metadata_snap) and use --metadata-snap';

export class ThinTrees {
  private constructor(
    readonly runner: NativeRunner,
    readonly metadata: string,
    /** The pool's own superblock, which has the size of the data device. */
    readonly current: ThinSuperblock,
    /** The superblock of the trees to read: the pool's own, or that of the metadata snapshot. */
    readonly superblock: ThinSuperblock,
    readonly heldRoot: bigint | null,
  ) {}

  static async open(runner: NativeRunner, metadata: string, choice: SnapshotChoice): Promise<ThinTrees> {
    const current = await superblockAt(runner, metadata, 0n);
    if (choice === false) return new ThinTrees(runner, metadata, current, current, null);
    const heldRoot = heldBlock(metadata, current, choice);
    const held = await superblockAt(runner, metadata, heldRoot);
    return new ThinTrees(runner, metadata, current, held, heldRoot);
  }

  /** All devices, in the order of their ids. */
  devices(signal?: AbortSignal): Promise<ThinDeviceDetails[]> {
    return this.#readStable(() => this.#listDevices(signal), signal);
  }

  /** How many blocks each device holds alone, in the order of their ids. A held metadata snapshot counts as no user. */
  async exclusiveBlocks(): Promise<ExclusiveBlocks> {
    const { metadata } = this;
    return (await this.#readStable(() => this.runner.run('thinExclusive', { metadata }))).devices;
  }

  /** Roots of the mapping trees of devices, in the order of the ids. */
  async rootsOf(deviceIds: readonly number[]): Promise<bigint[]> {
    const { devices } = await this.#readStable(() => this.#listSome(deviceIds));
    return deviceIds.map((id) => this.#rootIn(devices, id));
  }

  /** Some runs of a delta. The caller compares the results of rootsOf before and after the call. */
  delta(request: DeltaRequest): Promise<ThinDeltaAnswer> {
    return this.runner.run('thinDelta', { ...this.#source, ...request });
  }

  /** The error for trees that changed during a read, with the remedy. */
  moved(what: string): CsiError {
    const remedy =
      this.heldRoot === null
        ? `use snapshots that are not written to, or ${RESERVE_SNAPSHOT}`
        : 'the metadata snapshot was released during the read; reserve it again and release it afterwards';
    return CsiError.failedPrecondition(
      `${what} in ${this.metadata} changed while it was read, so the result would be unreliable: ${remedy}`,
    );
  }

  /** Repeats a read until the trees did not change during it. */
  async #readStable<T>(read: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    for (let attempts = 0; attempts < READ_ATTEMPTS; attempts += 1) {
      signal?.throwIfAborted();
      if (attempts > 0) await delay(PAUSE_MS);
      const before = await superblockAt(this.runner, this.metadata, this.#block);
      const found = await attempt(read);
      if (await this.#isUnchanged(before)) return outcomeOf(found, this.metadata);
    }
    throw this.moved('the list of devices');
  }

  get #block(): bigint {
    return this.heldRoot ?? 0n;
  }

  get #source(): ThinMetadata {
    return { metadata: this.metadata, superblock: this.#block };
  }

  #listSome(deviceIds: readonly number[] | null) {
    return this.runner.run('thinDevices', { ...this.#source, deviceIds });
  }

  async #listDevices(signal?: AbortSignal): Promise<ThinDeviceDetails[]> {
    const first = await this.#listSome(null);
    if (!first.truncated) return first.devices;
    const all = [...first.devices];
    let next = (all.at(-1)?.deviceId ?? MAX_DEVICE_ID) + 1;
    for (; next <= MAX_DEVICE_ID; next += DEVICES_PER_CALL) {
      signal?.throwIfAborted();
      const count = Math.min(DEVICES_PER_CALL, MAX_DEVICE_ID + 1 - next);
      const { devices } = await this.#listSome(Array.from({ length: count }, (_, i) => next + i));
      all.push(...devices);
    }
    return all;
  }

  #rootIn(devices: readonly ThinDeviceDetails[], deviceId: number): bigint {
    const device = devices.find((each) => each.deviceId === deviceId);
    if (device !== undefined) return device.root;
    const where = this.heldRoot === null ? '' : 'the metadata snapshot of ';
    throw CsiError.notFound(
      `there is no thin device ${deviceId} in ${where}${this.metadata}: blockdelta thin-ls lists them`,
    );
  }

  /** Whether the trees of `before` are still current. */
  async #isUnchanged(before: ThinSuperblock): Promise<boolean> {
    const now = await superblockAt(this.runner, this.metadata, 0n);
    if (this.heldRoot === null) return isSameCommit(now, before);
    if (now.heldRoot !== this.heldRoot) return false;
    // Another metadata snapshot may have been reserved at the same block.
    const held = await attempt(() => superblockAt(this.runner, this.metadata, this.#block));
    return 'value' in held && isSameCommit(held.value, this.superblock);
  }
}

function isSameCommit(a: ThinSuperblock, b: ThinSuperblock): boolean {
  return (
    a.checksum === b.checksum &&
    a.mappingRoot === b.mappingRoot &&
    a.detailsRoot === b.detailsRoot &&
    a.transactionId === b.transactionId &&
    a.time === b.time
  );
}

async function superblockAt(runner: NativeRunner, metadata: string, superblock: bigint): Promise<ThinSuperblock> {
  try {
    return (await runner.run('thinSuperblock', { metadata, superblock })).superblock;
  } catch (error) {
    throw readable(error, metadata);
  }
}

function heldBlock(metadata: string, current: ThinSuperblock, choice: true | bigint): bigint {
  if (current.heldRoot === null) {
    throw CsiError.failedPrecondition(
      `no metadata snapshot is held in ${metadata}: reserve one with 'dmsetup message POOL 0 ` +
        `reserve_metadata_snap', and release it afterwards with 'release_metadata_snap'`,
    );
  }
  if (choice !== true && choice !== current.heldRoot) {
    throw CsiError.failedPrecondition(
      `the metadata snapshot held in ${metadata} is at block ${current.heldRoot}, not ${choice}`,
    );
  }
  return current.heldRoot;
}

export type Attempt<T> = { value: T } | { error: unknown };

/** Keeps a failure for later: trees that changed may cause it, so it counts only if they did not change. */
export async function attempt<T>(read: () => Promise<T>): Promise<Attempt<T>> {
  try {
    return { value: await read() };
  } catch (error) {
    return { error };
  }
}

export function outcomeOf<T>(found: Attempt<T>, metadata: string): T {
  if ('error' in found) throw readable(found.error, metadata);
  return found.value;
}

/** Turns a native failure into an error with a status code and the path in its message. */
function readable(error: unknown, metadata: string): unknown {
  if (!(error instanceof SystemError)) return error;
  if (error.code === 'SCAN_REPLACED') {
    return CsiError.failedPrecondition(`${error.message}: ${RESERVE_SNAPSHOT}`, { cause: error });
  }
  if (error.code === 'THIN_METADATA_INVALID') {
    return CsiError.failedPrecondition(
      `${error.message}; if ${metadata} is the metadata of a thin pool, it is damaged: ` +
        'stop the pool and run thin_check on it',
      { cause: error },
    );
  }
  return error;
}
