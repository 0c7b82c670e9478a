/**
 * Locks on volumes, snapshots, names and paths for the duration of an operation. An operation takes all of its locks at once or
 * none. A call waits a few seconds for its locks, in the order of arrival, and then fails with ABORTED, and callers repeat the
 * call. Calls wait because orchestrators routinely call twice for one object, and report a call that fails at once to their
 * users.
 *
 * A waiting call holds no locks, so calls never wait for each other in a circle. An operation that holds locks and needs more
 * does not wait for them. The deletion of a snapshot is the exception: it waits for the lock of a later snapshot
 * (retained-bases.ts), and the sequence of the snapshots excludes a circle.
 *
 * Ids, names and paths share one key space, which `volumeKey` and its siblings build. The locks exist in this process only.
 */
import { normalize } from 'node:path/posix';
import { CsiError } from '../../base/errors.js';

export interface LockRequest {
  key: string;
  /** Any number of shared holders, or one exclusive holder. */
  mode: 'exclusive' | 'shared';
  /** Names the object in errors. */
  label: string;
  /** True for a shared holder that is the plugin's own work, which ends by itself within moments. */
  own?: boolean;
}

/** Releases all the locks, or only those with the given keys. Idempotent. */
export type Release = (only?: readonly LockRequest[]) => void;

export interface LockOptions {
  /** How long a call waits. Shorter than the least time that sidecars allow a call, 10 s. */
  waitMs?: number;
  /** How many calls wait at once; further ones fail at once. */
  maxWaiting?: number;
}

const WAIT_MS = 5000;
const MAX_WAITING = 256;

/**
 * The stronger mode in which an earlier waiting call wants each key. The map is by key, because a group has as many keys as
 * members: comparing each request with each would block the event loop for seconds.
 */
type Precedence = Map<string, LockRequest['mode']>;

interface Waiting {
  wanted: readonly LockRequest[];
  grant(): void;
}

interface Holders {
  exclusive: boolean;
  shared: number;
  /** How many of the shared holders are the plugin's own work. */
  own: number;
}

export const volumeKey = (volumeId: string): LockRequest => exclusive(`id:${volumeId}`, `volume ${volumeId}`);
/** Held by a copy of the volume until the copy ends, even if its caller has given up, and by operations that exclude a copy. */
export const volumeCopyKey = (volumeId: string): LockRequest =>
  exclusive(`copy:${volumeId}`, `a copy of volume ${volumeId}`);
export const volumeNameKey = (name: string): LockRequest => exclusive(`volume-name:${name}`, `volume name '${name}'`);
export const snapshotKey = (snapshotId: string): LockRequest => exclusive(`id:${snapshotId}`, `snapshot ${snapshotId}`);
export const snapshotNameKey = (name: string): LockRequest =>
  exclusive(`snapshot-name:${name}`, `snapshot name '${name}'`);
export const groupSnapshotKey = (groupSnapshotId: string): LockRequest =>
  exclusive(`id:${groupSnapshotId}`, `group snapshot ${groupSnapshotId}`);
export const groupSnapshotNameKey = (name: string): LockRequest =>
  exclusive(`group-snapshot-name:${name}`, `group snapshot name '${name}'`);
/** @param transfer the snapshot and its reader */
export const transferKey = (transfer: string): LockRequest =>
  exclusive(`transfer:${transfer}`, `the transfer of ${transfer}`);
/** Normalizes the path's spelling, because a request takes its locks before its paths are checked. */
export const pathKey = (path: string): LockRequest =>
  exclusive(`path:${normalize(path).replace(/\/$/, '')}`, `path ${path}`);
export const shared = (request: LockRequest): LockRequest => ({ ...request, mode: 'shared' });
export const sharedByPlugin = (key: LockRequest): LockRequest => ({ ...shared(key), own: true });

function exclusive(key: string, label: string): LockRequest {
  return { key, mode: 'exclusive', label };
}

export class OperationLocks {
  readonly #held = new Map<string, Holders>();
  /** In the order of arrival. */
  readonly #waiting = new Set<Waiting>();
  readonly #waitMs: number;
  readonly #maxWaiting: number;

  constructor({ waitMs = WAIT_MS, maxWaiting = MAX_WAITING }: LockOptions = {}) {
    this.#waitMs = waitMs;
    this.#maxWaiting = maxWaiting;
  }

  /**
   * Takes all locks or none, without waiting and without regard to waiting calls. Throws ABORTED, which names the busy object.
   */
  acquire(requests: readonly LockRequest[]): Release {
    const wanted = strongest(requests);
    const busy = wanted.find((request) => this.isBusy(request));
    if (busy !== undefined) throw pending(busy);
    return this.#take(wanted);
  }

  /**
   * Waits until it can take all locks at once, behind earlier calls that want the same locks. Rejects with ABORTED, naming the
   * busy object, when the wait is over or too many calls wait, and with the signal's reason when the signal aborts.
   *
   * @param signal of the call; it ends the wait
   */
  async acquireInTurn(requests: readonly LockRequest[], signal: AbortSignal): Promise<Release> {
    signal.throwIfAborted();
    const wanted = strongest(requests);
    const before: Precedence = new Map();
    for (const each of this.#waiting) addPrecedence(before, each.wanted);
    const busy = this.#obstacle(wanted, before);
    if (busy === null) return this.#take(wanted);
    if (this.#waiting.size >= this.#maxWaiting) throw pending(busy);
    return new Promise((resolve, reject) => {
      const end = (): void => {
        clearTimeout(timer);
        signal.removeEventListener('abort', onAbort);
        this.#waiting.delete(waiting);
      };
      const fail = (reason: unknown): void => {
        end();
        // Calls behind this call may have waited for this call alone.
        this.#grantWaiting();
        reject(reason);
      };
      const waiting: Waiting = {
        wanted,
        grant: () => {
          end();
          resolve(this.#take(wanted));
        },
      };
      const onAbort = (): void => fail(signal.reason);
      const timer = setTimeout(() => fail(pending(this.#obstacle(wanted) ?? busy)), this.#waitMs);
      signal.addEventListener('abort', onAbort, { once: true });
      this.#waiting.add(waiting);
    });
  }

  /**
   * Takes the locks for a call, or for an operation that holds others already.
   *
   * @param signal of the call, which then waits for the locks; without a signal, the call fails unless the locks are free
   */
  async acquireFor(requests: readonly LockRequest[], signal?: AbortSignal): Promise<Release> {
    return signal === undefined ? this.acquire(requests) : this.acquireInTurn(requests, signal);
  }

  /** Runs `work` under the locks, taken as by `acquireFor`. */
  async run<T>(requests: readonly LockRequest[], work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    const release = await this.acquireFor(requests, signal);
    try {
      return await work();
    } finally {
      release();
    }
  }

  /** Whether a caller, not only the plugin's own work, holds the key shared, as a metadata stream holds its snapshots. */
  isShared(request: LockRequest): boolean {
    const { shared: all, own } = this.#held.get(request.key) ?? { shared: 0, own: 0 };
    return all > own;
  }

  /** Whether the lock cannot be taken now. */
  isBusy(request: LockRequest): boolean {
    const holders = this.#held.get(request.key);
    if (holders === undefined) return false;
    return holders.exclusive || (request.mode === 'exclusive' && holders.shared > 0);
  }

  /** The first lock that cannot be taken because of a holder or of a request that has precedence; null if there is none. */
  #obstacle(wanted: readonly LockRequest[], precedence: Precedence = new Map()): LockRequest | null {
    return wanted.find((request) => this.isBusy(request) || excludes(request, precedence)) ?? null;
  }

  /** Grants the locks to each waiting call that does not overtake an earlier call for the same locks. */
  #grantWaiting(): void {
    const before: Precedence = new Map();
    for (const waiting of this.#waiting) {
      if (this.#obstacle(waiting.wanted, before) === null) waiting.grant();
      else addPrecedence(before, waiting.wanted);
    }
  }

  #take(wanted: readonly LockRequest[]): Release {
    for (const { key, mode, own = false } of wanted) {
      const holders = this.#held.get(key) ?? { exclusive: false, shared: 0, own: 0 };
      if (own) holders.own += 1;
      if (mode === 'exclusive') holders.exclusive = true;
      else holders.shared += 1;
      this.#held.set(key, holders);
    }
    const held = new Map(wanted.map((request) => [request.key, request]));
    return (only = wanted) => {
      for (const { key } of only) {
        const request = held.get(key);
        if (request === undefined) continue;
        held.delete(key);
        this.#drop(request);
      }
      this.#grantWaiting();
    };
  }

  #drop(request: LockRequest): void {
    const holders = this.#held.get(request.key);
    if (holders === undefined) return;
    if (request.mode === 'exclusive') holders.exclusive = false;
    else holders.shared -= 1;
    if (request.own === true) holders.own -= 1;
    if (!holders.exclusive && holders.shared === 0) this.#held.delete(request.key);
  }
}

function pending({ label }: LockRequest): CsiError {
  return CsiError.aborted(`an operation on ${label} is pending; try again when it has completed`);
}

function excludes({ key, mode }: LockRequest, precedence: Precedence): boolean {
  const other = precedence.get(key);
  return other === 'exclusive' || (other === 'shared' && mode === 'exclusive');
}

function addPrecedence(precedence: Precedence, requests: readonly LockRequest[]): void {
  for (const { key, mode } of requests) {
    if (mode === 'exclusive' || !precedence.has(key)) precedence.set(key, mode);
  }
}

/** One request for each key: the exclusive one if there is one. */
function strongest(requests: readonly LockRequest[]): LockRequest[] {
  const byKey = new Map<string, LockRequest>();
  for (const request of requests) {
    if (request.mode === 'exclusive' || !byKey.has(request.key)) byKey.set(request.key, request);
  }
  return [...byKey.values()];
}
