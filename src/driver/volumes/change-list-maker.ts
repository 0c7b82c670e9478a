/**
 * Makes stored change lists in the background: after a snapshot is taken, and after a request that found none.
 *
 * Makes one list at a time for the whole node, in steps of a fraction of a second, with a pause as long as the step after each
 * step. A step shares the locks of its snapshots with readers, so a deletion waits for one step at most. If the locks are not
 * free, the list is given up. Failures are logged and forgotten, because a list only makes an answer faster; the next request
 * asks for the list again. Knows no files and no extents.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { bestEffort, logLeftover } from '../../base/best-effort.js';
import type { SystemError } from '../../base/errors.js';
import type { Logger } from '../../base/logger.js';
import type { UnfinishedList } from '../backends/backend.js';
import type { BackendRegistry } from '../backends/registry.js';
import type { AsyncCatalogue } from '../catalogue/catalogue-client.js';
import type { SnapshotRecord } from '../catalogue/records.js';
import { heldBefore } from './held-snapshots.js';
import { type OperationLocks, sharedByPlugin, snapshotKey } from './operation-locks.js';
import type { RetainedBases } from './retained-bases.js';

/** The list could not be made, or a scan has refused the list. */
export type ListProblem = 'not made' | 'refused';

export interface ChangeListMakerDependencies {
  catalogue: AsyncCatalogue;
  registry: BackendRegistry;
  locks: OperationLocks;
  /** Pending bases wait for the list of the next snapshot. */
  retainedBases: Pick<RetainedBases, 'completePending'>;
  logger: Logger;
  /** Counts the problems; absent if nobody counts them. */
  observe?: ((kind: ListKind, problem: ListProblem) => void) | undefined;
}

/** `delta` lists what differs from the snapshot before; `allocated` lists what the snapshot holds. */
export type ListKind = 'delta' | 'allocated';

interface WantedList {
  snapshotId: string;
  kind: ListKind;
}

interface Making {
  list: UnfinishedList;
  baseId: string | null;
}

/** Longer than a usual step. A step that took longer waited for a disk, and needs no longer pause. */
const LONGEST_PAUSE_MS = 1000;
/** How many lists may wait. Further requests for lists are dropped. */
const MAX_WAITING = 1024;

export class ChangeListMaker {
  readonly #waiting = new Map<string, WantedList>();
  readonly #stopped = new AbortController();
  #running: Promise<void> | null = null;

  constructor(private readonly deps: ChangeListMakerDependencies) {}

  /** Asks for a list of the snapshot; a delta begins at the snapshot before it. Returns at once. */
  schedule(snapshotId: string, kind: ListKind = 'delta'): void {
    if (this.#stopped.signal.aborted || this.#waiting.size >= MAX_WAITING) return;
    this.#waiting.set(`${kind} ${snapshotId}`, { snapshotId, kind });
    this.#running ??= this.#run().finally(() => {
      this.#running = null;
    });
  }

  /** Asks for a new list after a scan has refused the old list, which was removed. */
  refused({ snapshotId, pool }: SnapshotRecord, kind: ListKind, refusal: SystemError): void {
    this.deps.logger.warn(
      { snapshotId, pool, path: refusal.path, err: refusal },
      'a stored change list is not used; the scan goes on with the extents, and the list is made again',
    );
    this.deps.observe?.(kind, 'refused');
    this.schedule(snapshotId, kind);
  }

  /** Resolves when no list is being made and no list waits. */
  async idle(): Promise<void> {
    await this.#running;
  }

  /** Drops the lists that wait; resolves when the running step has ended. */
  async stop(): Promise<void> {
    this.#stopped.abort();
    this.#waiting.clear();
    await this.idle();
  }

  async #run(): Promise<void> {
    for (let wanted = this.#takeOldest(); wanted !== null; wanted = this.#takeOldest()) {
      try {
        await this.#make(wanted);
      } catch (thrown) {
        this.deps.observe?.(wanted.kind, 'not made');
        this.deps.logger.debug({ ...wanted, err: thrown }, 'could not make the change list of a snapshot');
      }
    }
  }

  /** Removes the request that has waited longest, and returns it. Null if none waits. */
  #takeOldest(): WantedList | null {
    const [oldest] = this.#waiting;
    if (oldest === undefined) return null;
    const [key, wanted] = oldest;
    this.#waiting.delete(key);
    return wanted;
  }

  async #make(wanted: WantedList): Promise<void> {
    let making: Making | null = null;
    try {
      do {
        const began = performance.now();
        making = await this.#step(wanted, making);
        const pauseMs = Math.min(performance.now() - began, LONGEST_PAUSE_MS);
        const { signal } = this.#stopped;
        await delay(pauseMs, undefined, { signal }).catch(() => undefined);
      } while (making !== null && !this.#stopped.signal.aborted);
    } finally {
      const { list } = making ?? {};
      const onFailure = logLeftover(this.deps.logger, {
        stays: `the unfinished change list of snapshot ${wanted.snapshotId}`,
        removedBy: 'the next list that is given up in its pool, or the next start',
      });
      if (list !== undefined) await bestEffort(() => list.abandon(), onFailure);
    }
  }

  /** Makes one step. Null if the list is stored, or not wanted any more. */
  async #step(wanted: WantedList, making: Making | null): Promise<Making | null> {
    const { snapshotId, kind } = wanted;
    const { catalogue, locks, registry, retainedBases } = this.deps;
    const target = await catalogue.snapshotById(snapshotId);
    if (target?.state !== 'ready') return abandoned(making);
    const backend = registry.owning(target.pool);
    const base = kind === 'delta' ? await heldBefore(catalogue, backend, target) : null;
    if (kind === 'delta' && base === null) return abandoned(making);
    const baseId = base?.snapshotId ?? null;
    // The base of the unfinished list is deleted, or another snapshot is the base now.
    if (making !== null && making.baseId !== baseId) await abandoned(making);
    const keys = [snapshotId, baseId].filter((id) => id !== null);
    const left = await locks.run(
      keys.map((id) => sharedByPlugin(snapshotKey(id))),
      async () => {
        const list = making?.baseId === baseId ? making.list : await backend.changes.begin(snapshotId, baseId);
        return list === null || (await list.step()) ? null : { list, baseId };
      },
    );
    if (left === null && kind === 'delta') await retainedBases.completePending(backend, target);
    return left;
  }
}

async function abandoned(making: Making | null): Promise<null> {
  await making?.list.abandon();
  return null;
}
