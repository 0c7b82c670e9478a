/**
 * Volumes and snapshots that many checks read and none changes, created on first use. They are raw block volumes if the
 * run may use raw block volumes, and mounted volumes otherwise.
 */

import { messageOf } from '../../base/errors.js';
import { Random } from '../random.js';
import { takePair } from './changes.js';
import type { Driver } from './judged-driver.js';
import type { ListRequest } from './list-request.js';
import { allocatedOf, deltaOf } from './list-request.js';
import type { Snapshot, Volume } from './objects.js';
import { type AccessType, type SuiteOptions, volumeSizeOf } from './options.js';
import type { Volumes } from './volumes.js';

/** Snapshots of one volume, in the order they were taken. */
export interface History {
  readonly volume: Volume;
  readonly base: Snapshot;
  readonly target: Snapshot;
  /** Two snapshots taken after the volume was unpublished, with nothing written in between. */
  readonly twins: readonly [Snapshot, Snapshot];
}

/** The numbers of changes, enough for lists of many entries spread over the volume. */
const CHANGES = [
  { block: 300, mount: 60 },
  { block: 200, mount: 60 },
] as const;

/**
 * One cause of many failures: the shared volumes cannot be made, or the driver refuses their lists. Every check that
 * meets a cause gets the same object, so that the runner can report it once.
 */
export class SharedFailure extends Error {
  override readonly name = 'SharedFailure';
}

export class SharedVolumes {
  #history: Promise<History> | null = null;
  #unrelated: Promise<Snapshot> | null = null;
  /** The failure of each RPC that the driver refuses. */
  readonly #refusals = new Map<string, SharedFailure>();
  /** RPCs that have been answered with a list. */
  readonly #served = new Set<string>();

  constructor(
    private readonly volumes: Volumes,
    private readonly options: SuiteOptions,
  ) {}

  get access(): AccessType {
    return this.options.access.includes('block') ? 'block' : 'mount';
  }

  history(): Promise<History> {
    this.#history ??= this.#makeHistory().catch(failShared);
    return this.#history;
  }

  /** Returns a snapshot of another volume, which was never written to. */
  unrelated(): Promise<Snapshot> {
    this.#unrelated ??= this.#makeUnrelated().catch(failShared);
    return this.#unrelated;
  }

  /** Returns one request for each RPC. Both lists have entries. */
  async lists(): Promise<[ListRequest, ListRequest]> {
    const { base, target } = await this.history();
    return [allocatedOf(target), deltaOf(base, target)];
  }

  /**
   * Returns a failure if the driver refuses an RPC for the shared snapshots too, where nothing is wrong with the request.
   * Returns null if the driver serves the RPC, or if that is not known.
   *
   * @param ask returns how the driver refuses a list; null if the driver serves the list, undefined if that is not known
   */
  async generalRefusal(
    rpc: ListRequest['rpc'],
    ask: (list: ListRequest) => Promise<string | null | undefined>,
  ): Promise<SharedFailure | null> {
    const known = this.#refusals.get(rpc);
    if (known !== undefined) return known;
    if (this.#served.has(rpc)) return null;
    const list = (await this.lists()).find((request) => request.rpc === rpc) as ListRequest;
    const refusal = await ask(list);
    if (refusal === null) this.#served.add(rpc);
    if (refusal === null || refusal === undefined) return null;
    const failure = new SharedFailure(
      `the driver refuses lists of ${this.access} volumes that are asked for correctly: ${refusal}`,
    );
    // Checks do not run concurrently, but an abandoned check may still be asking.
    if (!this.#refusals.has(rpc)) this.#refusals.set(rpc, failure);
    return this.#refusals.get(rpc) ?? failure;
  }

  async cleanUp(driver: Driver): Promise<string[]> {
    // Without this, objects that are still being created would be left behind.
    await Promise.allSettled([this.#history, this.#unrelated]);
    return this.volumes.cleanUp(driver);
  }

  async #makeHistory(): Promise<History> {
    const random = new Random(this.options.seed, 'shared');
    const { volume, base, target } = await takePair(this.volumes, this.access, random, CHANGES);
    // A mounted file system writes in the background, and when it is frozen for a snapshot.
    await this.volumes.unpublish(volume);
    const first = await this.volumes.snapshot(volume);
    const second = await this.volumes.snapshot(volume);
    return { volume, base, target, twins: [first, second] };
  }

  async #makeUnrelated(): Promise<Snapshot> {
    const sizeBytes = volumeSizeOf(this.options, this.access);
    const volume = await this.volumes.create({ access: this.access, sizeBytes });
    return this.volumes.snapshot(volume);
  }
}

function failShared(cause: unknown): never {
  const why = messageOf(cause);
  throw new SharedFailure(`the volumes that checks share cannot be made: ${why}`, { cause });
}
