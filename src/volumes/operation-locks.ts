/**
 * Locks on volumes, snapshots, names and paths for the duration of an operation. An operation takes all of
 * its locks at once or none, and never waits for one: the call fails with ABORTED and the caller retries.
 *
 * Ids, names and paths share one key space, which `volumeKey` and its siblings build. The locks exist in
 * this process only.
 */
import { normalize } from 'node:path/posix';
import { CsiError } from '../base/errors.js';

export interface LockRequest {
  key: string;
  /** Any number of shared holders, or one exclusive holder. */
  mode: 'exclusive' | 'shared';
  /** Names the object in errors. */
  label: string;
}

export type Release = () => void;

interface Holders {
  exclusive: boolean;
  shared: number;
}

export const volumeKey = (volumeId: string): LockRequest =>
  exclusive(`id:${volumeId}`, `volume ${volumeId}`);
export const volumeNameKey = (name: string): LockRequest =>
  exclusive(`volume-name:${name}`, `volume name '${name}'`);
export const snapshotKey = (snapshotId: string): LockRequest =>
  exclusive(`id:${snapshotId}`, `snapshot ${snapshotId}`);
export const snapshotNameKey = (name: string): LockRequest =>
  exclusive(`snapshot-name:${name}`, `snapshot name '${name}'`);
export const groupSnapshotKey = (groupSnapshotId: string): LockRequest =>
  exclusive(`id:${groupSnapshotId}`, `group snapshot ${groupSnapshotId}`);
export const groupSnapshotNameKey = (name: string): LockRequest =>
  exclusive(`group-snapshot-name:${name}`, `group snapshot name '${name}'`);
/** Normalizes the path's spelling, because requests are locked before their paths are checked. */
export const pathKey = (path: string): LockRequest =>
  exclusive(`path:${normalize(path).replace(/\/$/, '')}`, `path ${path}`);
export const shared = (request: LockRequest): LockRequest => ({ ...request, mode: 'shared' });

function exclusive(key: string, label: string): LockRequest {
  return { key, mode: 'exclusive', label };
}

export class OperationLocks {
  readonly #held = new Map<string, Holders>();

  /** Takes all locks or none. Throws ABORTED naming the busy object. The release is idempotent. */
  acquire(requests: readonly LockRequest[]): Release {
    const wanted = strongest(requests);
    for (const request of wanted) {
      if (this.isBusy(request)) {
        throw CsiError.aborted(
          `an operation on ${request.label} is pending; try again when it has completed`,
        );
      }
    }
    for (const request of wanted) this.#take(request);
    let released = false;
    return () => {
      if (released) return;
      released = true;
      for (const request of wanted) this.#drop(request);
    };
  }

  /** Runs `work` under the locks. */
  async run<T>(requests: readonly LockRequest[], work: () => Promise<T>): Promise<T> {
    const release = this.acquire(requests);
    try {
      return await work();
    } finally {
      release();
    }
  }

  /** Whether the key is held in shared mode, as a metadata stream holds its snapshots. */
  isShared(request: LockRequest): boolean {
    return (this.#held.get(request.key)?.shared ?? 0) > 0;
  }

  /** Whether the lock could not be taken now. */
  isBusy(request: LockRequest): boolean {
    const holders = this.#held.get(request.key);
    if (holders === undefined) return false;
    return holders.exclusive || (request.mode === 'exclusive' && holders.shared > 0);
  }

  #take(request: LockRequest): void {
    const holders = this.#held.get(request.key) ?? { exclusive: false, shared: 0 };
    if (request.mode === 'exclusive') holders.exclusive = true;
    else holders.shared += 1;
    this.#held.set(request.key, holders);
  }

  #drop(request: LockRequest): void {
    const holders = this.#held.get(request.key);
    if (holders === undefined) return;
    if (request.mode === 'exclusive') holders.exclusive = false;
    else holders.shared -= 1;
    if (!holders.exclusive && holders.shared === 0) this.#held.delete(request.key);
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
