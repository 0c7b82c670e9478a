/**
 * The copies of this node's snapshots that other nodes are to keep: which are to be made, which are kept, and which are to be
 * removed. Knows no other node; a router does the work, and reports it here.
 *
 * A row names its copy by an id that is never used again, and goes only one way: pending, kept, ending, removed. So a row in a
 * catalogue from a backup may be behind, but whatever it says is to be removed was given up for ever. Of two ids for a snapshot
 * the greater one was chosen later: by that the other node knows a message that is late.
 */
import type { AsyncCatalogue } from '../catalogue/catalogue-client.js';
import type { ListedCopy } from '../catalogue/records.js';
import { newCopy } from '../volumes/snapshot-sets.js';

export interface CopiesOptions {
  catalogue: Pick<
    AsyncCatalogue,
    'snapshotById' | 'keptCopies' | 'unsettledCopies' | 'chooseCopy' | 'copyKept' | 'copyEnded'
  >;
  /** Whether the catalogue has lost rows: then nothing is removed anywhere on its word. */
  lacksRows(): boolean;
  /** Called after each attempt that has failed. */
  observe?: (() => void) | undefined;
}

export type CopyId = Pick<ListedCopy, 'snapshotId' | 'promiseId'>;

export type CopyOutcome = { kind: 'kept' | 'ended' } | { kind: 'failed'; failure: string };

interface Failure {
  readonly snapshotId: string;
  readonly volumeId: string;
  readonly failure: string;
}

export class Copies {
  /** Why the last attempt to make a pending copy failed, by promises. */
  readonly #failures = new Map<string, Failure>();

  constructor(private readonly options: CopiesOptions) {}

  kept(): Promise<ListedCopy[]> {
    return this.options.catalogue.keptCopies();
  }

  /** Those that a router is to have made, or removed. */
  async unsettled(): Promise<ListedCopy[]> {
    const found = await this.options.catalogue.unsettledCopies();
    const pending = new Set(found.filter(({ state }) => state === 'pending').map(({ promiseId }) => promiseId));
    for (const promiseId of this.#failures.keys()) if (!pending.has(promiseId)) this.#failures.delete(promiseId);
    return this.options.lacksRows() ? found.filter(({ state }) => state === 'pending') : found;
  }

  /** Gives a pending copy to another node. Nothing if it is not pending any more. */
  async choose({ snapshotId, promiseId }: CopyId, nodeId: string): Promise<void> {
    await this.options.catalogue.chooseCopy(promiseId, newCopy(snapshotId, nodeId, promiseId));
    this.#failures.delete(promiseId);
  }

  async report({ snapshotId, promiseId }: CopyId, outcome: CopyOutcome): Promise<void> {
    const { catalogue, observe } = this.options;
    if (outcome.kind === 'failed') {
      observe?.();
      const { volumeId = '' } = (await catalogue.snapshotById(snapshotId)) ?? {};
      this.#failures.set(promiseId, { snapshotId, volumeId, failure: outcome.failure });
      return;
    }
    this.#failures.delete(promiseId);
    await (outcome.kind === 'kept' ? catalogue.copyKept(promiseId) : catalogue.copyEnded(promiseId));
  }

  /** Why a snapshot, or one of a volume, has no copy yet, as far as an attempt has failed; null if none has since the start. */
  failureOf(which: 'snapshotId' | 'volumeId', id: string): string | null {
    return [...this.#failures.values()].find((each) => each[which] === id)?.failure ?? null;
  }
}
