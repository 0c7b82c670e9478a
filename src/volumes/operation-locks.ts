/**
 * Locks on volumes, snapshots and names while an operation runs: taken all or nothing, at once, and
 * never waited for. Who finds one taken answers ABORTED and the caller tries again later.
 *
 * Ids and names share one key space so that an operation by name excludes one by id; see `volumeKey`
 * and its siblings. The locks live in this process alone, and end with it.
 */
import { normalize } from 'node:path/posix';
import { CsiError } from '../base/errors.js';

export interface LockRequest {
  key: string;
  /** Shared holders exclude exclusive ones only. */
  mode: 'exclusive' | 'shared';
  /** What to call the object in the error. */
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
/** However the path is spelt: requests are locked before their paths are judged. */
export const pathKey = (path: string): LockRequest =>
  exclusive(`path:${normalize(path).replace(/\/$/, '')}`, `path ${path}`);
export const shared = (request: LockRequest): LockRequest => ({ ...request, mode: 'shared' });

function exclusive(key: string, label: string): LockRequest {
  return { key, mode: 'exclusive', label };
}

export class OperationLocks {
  readonly #held = new Map<string, Holders>();

  /** Takes all locks or none. Throws ABORTED naming the object that is busy. The release is idempotent. */
  acquire(requests: readonly LockRequest[]): Release {
    const wanted = strongest(requests);
    for (const request of wanted) {
      if (this.isBusy(request)) {
        throw CsiError.aborted(
          `an operation on ${request.label} is pending; try again when it has ended`,
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

  /** Whether somebody holds the key in shared mode, such as a metadata stream its snapshots. */
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

/** One request a key; an exclusive one wins over a shared one. */
function strongest(requests: readonly LockRequest[]): LockRequest[] {
  const byKey = new Map<string, LockRequest>();
  for (const request of requests) {
    if (request.mode === 'exclusive' || !byKey.has(request.key)) byKey.set(request.key, request);
  }
  return [...byKey.values()];
}
