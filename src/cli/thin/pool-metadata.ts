/**
 * What `thin-delta` and `thin-ls` read: the trees of one pool, the current ones or those that a
 * metadata snapshot holds, and whether they stood still while they were read.
 *
 * A pool in use gives nodes free and uses them again. No node below a tree that is still in force has
 * been freed. Whether trees are still in force: those of a metadata snapshot, and any look within one
 * commit, by the checksum of the superblock, which tells for certain; the tree of a device over several
 * commits by the block of its root, which is certain for a device that nobody writes to (its root stays),
 * and only likely for others: a root that was freed may return to its block. Knows nothing of printing.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { CsiError, SystemError } from '../../base/errors.js';
import type { NativeRunner } from '../../native/pool.js';
import type {
  ThinAddon,
  ThinDeviceDetails,
  ThinMetadata,
  ThinSuperblock,
} from '../../native/thin-addon.js';

/** Which metadata snapshot: none, the one that is held, or the one at this block (and no other). */
export type SnapshotChoice = false | true | bigint;

type ThinDeltaAnswer = Extract<ReturnType<ThinAddon['thinDelta']>, { ok: true }>;
type DeltaRequest = Omit<Parameters<ThinAddon['thinDelta']>[0], keyof ThinMetadata>;

/** Device ids have 24 bits. */
export const MAX_DEVICE_ID = 2 ** 24 - 1;
/** Devices that one question names at most. */
const DEVICES_PER_CALL = 65_536;
/** A pool commits once a second and at each flush of a device; a look takes a millisecond or two. */
const LOOKS = 50;
const REST_MS = 2;

const HOLD_A_SNAPSHOT =
  'hold a metadata snapshot (dmsetup message POOL 0 reserve_metadata_snap) and give --metadata-snap';

export class ThinTrees {
  private constructor(
    readonly runner: NativeRunner,
    readonly metadata: string,
    /** The pool's own: knows the size of the data device. */
    readonly current: ThinSuperblock,
    /** Where reading begins: the pool's own or the copy that is held. */
    readonly superblock: ThinSuperblock,
    readonly heldRoot: bigint | null,
  ) {}

  static async open(
    runner: NativeRunner,
    metadata: string,
    choice: SnapshotChoice,
  ): Promise<ThinTrees> {
    const current = await superblockAt(runner, metadata, 0n);
    if (choice === false) return new ThinTrees(runner, metadata, current, current, null);
    const heldRoot = heldBlock(metadata, current, choice);
    const held = await superblockAt(runner, metadata, heldRoot);
    return new ThinTrees(runner, metadata, current, held, heldRoot);
  }

  /** All devices, in the order of their ids. */
  devices(signal?: AbortSignal): Promise<ThinDeviceDetails[]> {
    return this.#look(() => this.#listDevices(signal), signal);
  }

  /** Roots of the mapping trees of devices, in the order of the ids. */
  async rootsOf(deviceIds: readonly number[]): Promise<bigint[]> {
    const { devices } = await this.#look(() => this.#ask(deviceIds));
    return deviceIds.map((id) => this.#rootIn(devices, id));
  }

  /** Some runs of a delta. What was read has to be held against rootsOf afterwards. */
  delta(request: DeltaRequest): Promise<ThinDeltaAnswer> {
    return this.runner.run('thinDelta', { ...this.#source, ...request });
  }

  /** The error that says why nothing sound can be told, and what helps. */
  moved(what: string): CsiError {
    const remedy =
      this.heldRoot === null
        ? `name snapshots that nobody writes to, or ${HOLD_A_SNAPSHOT}`
        : 'the metadata snapshot was released meanwhile: reserve it again and release it afterwards';
    return CsiError.failedPrecondition(
      `${what} in ${this.metadata} changed while it was read, so nothing sound can be told of it: ${remedy}`,
    );
  }

  /** What is read while the trees stand still. */
  async #look<T>(read: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    for (let look = 0; look < LOOKS; look += 1) {
      signal?.throwIfAborted();
      if (look > 0) await delay(REST_MS);
      const before = await superblockAt(this.runner, this.metadata, this.#block);
      const found = await attempt(read);
      if (await this.#isStill(before)) return outcomeOf(found, this.metadata);
    }
    throw this.moved('the list of devices');
  }

  get #block(): bigint {
    return this.heldRoot ?? 0n;
  }

  get #source(): ThinMetadata {
    return { metadata: this.metadata, superblock: this.#block };
  }

  #ask(deviceIds: readonly number[] | null) {
    return this.runner.run('thinDevices', { ...this.#source, deviceIds });
  }

  async #listDevices(signal?: AbortSignal): Promise<ThinDeviceDetails[]> {
    const first = await this.#ask(null);
    if (!first.truncated) return first.devices;
    const all = [...first.devices];
    let next = (all.at(-1)?.deviceId ?? MAX_DEVICE_ID) + 1;
    for (; next <= MAX_DEVICE_ID; next += DEVICES_PER_CALL) {
      signal?.throwIfAborted();
      const count = Math.min(DEVICES_PER_CALL, MAX_DEVICE_ID + 1 - next);
      const { devices } = await this.#ask(Array.from({ length: count }, (_, i) => next + i));
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

  /** Whether the trees that `before` leads to are still those in force. */
  async #isStill(before: ThinSuperblock): Promise<boolean> {
    const now = await superblockAt(this.runner, this.metadata, 0n);
    if (this.heldRoot === null) return isSameCommit(now, before);
    if (now.heldRoot !== this.heldRoot) return false;
    // Another metadata snapshot may have been made at the same block.
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

async function superblockAt(
  runner: NativeRunner,
  metadata: string,
  superblock: bigint,
): Promise<ThinSuperblock> {
  try {
    return (await runner.run('thinSuperblock', { metadata, superblock })).superblock;
  } catch (error) {
    throw readable(error, metadata);
  }
}

function heldBlock(metadata: string, current: ThinSuperblock, choice: true | bigint): bigint {
  if (current.heldRoot === null) {
    throw CsiError.failedPrecondition(
      `no metadata snapshot is held in ${metadata}: make one by 'dmsetup message POOL 0 ` +
        `reserve_metadata_snap', and release it afterwards by 'release_metadata_snap'`,
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

/** A failure may come from trees that moved, so it counts only when they did not. */
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

/** A native failure as an error with a status code and the path in its words. */
function readable(error: unknown, metadata: string): unknown {
  if (!(error instanceof SystemError)) return error;
  if (error.code === 'SCAN_REPLACED') {
    return CsiError.failedPrecondition(`${error.message}: ${HOLD_A_SNAPSHOT}`, { cause: error });
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
