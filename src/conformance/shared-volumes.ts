/**
 * Volumes and snapshots that many checks read and none changes, created on first use. They are raw block
 * volumes if the run may use those, else mounted ones.
 */
import { BlockContent } from './block-content.js';
import type { Driver, ListRequest } from './driver.js';
import { allocatedOf, deltaOf } from './lists.js';
import { changeFiles } from './mount-content.js';
import type { Snapshot, Volume } from './objects.js';
import { type AccessType, type SuiteOptions, volumeSizeOf } from './options.js';
import { Random } from './random.js';
import type { Volumes } from './volumes.js';

/** Snapshots of one volume, in the order they were taken. */
export interface History {
  readonly volume: Volume;
  readonly base: Snapshot;
  readonly target: Snapshot;
  /** Two snapshots taken after the volume was unpublished, with nothing written in between. */
  readonly twins: readonly [Snapshot, Snapshot];
}

/** Writes, enough for lists of many entries spread over the volume. */
const FIRST_OPERATIONS = 300;
const LATER_OPERATIONS = 200;
const FILE_CHANGES = 60;

/** The shared volumes could not be made: the cause of many failures at once, and the same object for each of them. */
export class SharedFailure extends Error {
  override readonly name = 'SharedFailure';
}

export class SharedVolumes {
  #history: Promise<History> | null = null;
  #unrelated: Promise<Snapshot> | null = null;
  #refusedList: Promise<string | null> | null = null;

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

  /** A snapshot of another volume, which was never written to. */
  unrelated(): Promise<Snapshot> {
    this.#unrelated ??= this.#makeUnrelated().catch(failShared);
    return this.#unrelated;
  }

  /** One request for each RPC; both lists have entries. */
  async lists(): Promise<[ListRequest, ListRequest]> {
    const { base, target } = await this.history();
    return [allocatedOf(target), deltaOf(base, target)];
  }

  /** How the driver refuses a list that is asked for correctly; null: it serves them. Asked once. */
  refusedList(ask: (list: ListRequest) => Promise<string | null>): Promise<string | null> {
    this.#refusedList ??= this.lists().then(async ([allocated, delta]) => {
      return (await ask(allocated)) ?? (await ask(delta));
    });
    return this.#refusedList;
  }

  async cleanUp(driver: Driver): Promise<string[]> {
    // Objects that are still being created would be left behind.
    await Promise.allSettled([this.#history, this.#unrelated]);
    return this.volumes.cleanUp(driver);
  }

  async #makeHistory(): Promise<History> {
    const volume = await this.volumes.create({ access: this.access });
    const path = await this.volumes.publish(volume);
    const random = new Random(this.options.seed, 'shared');
    const change = this.#changer(volume, path, random);
    await change(FIRST_OPERATIONS);
    const base = await this.volumes.snapshot(volume);
    await change(LATER_OPERATIONS);
    const target = await this.volumes.snapshot(volume);
    // A mounted file system writes in the background, and when it is frozen for a snapshot.
    await this.volumes.unpublish(volume);
    const first = await this.volumes.snapshot(volume);
    const second = await this.volumes.snapshot(volume);
    return { volume, base, target, twins: [first, second] };
  }

  #changer(volume: Volume, path: string, random: Random): (count: number) => Promise<void> {
    if (volume.access === 'mount') return () => changeFiles(path, random, FILE_CHANGES);
    const content = new BlockContent(volume.sizeBytes);
    return (count) => content.change(path, random, count);
  }

  async #makeUnrelated(): Promise<Snapshot> {
    const sizeBytes = volumeSizeOf(this.options, this.access);
    const volume = await this.volumes.create({ access: this.access, sizeBytes });
    return this.volumes.snapshot(volume);
  }
}

function failShared(cause: unknown): never {
  const why = cause instanceof Error ? cause.message : String(cause);
  throw new SharedFailure(`the volumes that checks share cannot be made: ${why}`, { cause });
}
