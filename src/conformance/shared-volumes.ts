/**
 * Volumes and snapshots that many checks look at, made when the first of them asks. Nobody changes
 * them. A raw block volume if the run may use those, else a file system.
 */
import { BlockContent } from './block-content.js';
import type { Driver, ListRequest } from './driver.js';
import { allocatedOf, deltaOf } from './lists.js';
import { changeFiles } from './mount-content.js';
import type { Snapshot, Volume } from './objects.js';
import { type AccessType, type SuiteOptions, volumeSizeOf } from './options.js';
import { Random } from './random.js';
import type { Volumes } from './volumes.js';

/** Snapshots of one volume, in the order they were cut. */
export interface History {
  readonly volume: Volume;
  readonly base: Snapshot;
  readonly target: Snapshot;
  /** Two cut after the volume was unpublished, with nothing written in between. */
  readonly twins: readonly [Snapshot, Snapshot];
}

/** Enough for lists of many entries, spread over the volume. */
const FIRST_OPERATIONS = 300;
const LATER_OPERATIONS = 200;
const FILE_CHANGES = 60;

export class CommonVolumes {
  #history: Promise<History> | null = null;
  #stranger: Promise<Snapshot> | null = null;

  constructor(
    private readonly volumes: Volumes,
    private readonly options: SuiteOptions,
  ) {}

  get access(): AccessType {
    return this.options.access.includes('block') ? 'block' : 'mount';
  }

  history(): Promise<History> {
    this.#history ??= this.#makeHistory();
    return this.#history;
  }

  /** A snapshot of a volume that has nothing to do with the others. */
  stranger(): Promise<Snapshot> {
    this.#stranger ??= this.#makeStranger();
    return this.#stranger;
  }

  /** One list of either RPC, both with entries. */
  async lists(): Promise<[ListRequest, ListRequest]> {
    const { base, target } = await this.history();
    return [allocatedOf(target), deltaOf(base, target)];
  }

  async cleanUp(driver: Driver): Promise<string[]> {
    // What is still being made would come after it.
    await Promise.allSettled([this.#history, this.#stranger]);
    return this.volumes.cleanUp(driver);
  }

  async #makeHistory(): Promise<History> {
    const volume = await this.volumes.create({ access: this.access });
    const path = await this.volumes.publish(volume);
    const random = new Random(this.options.seed, 'common');
    const change = this.#changer(volume, path, random);
    await change(FIRST_OPERATIONS);
    const base = await this.volumes.snapshot(volume);
    await change(LATER_OPERATIONS);
    const target = await this.volumes.snapshot(volume);
    // A mounted file system writes by itself, and when it is frozen for a snapshot.
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

  async #makeStranger(): Promise<Snapshot> {
    const sizeBytes = volumeSizeOf(this.options, this.access);
    const volume = await this.volumes.create({ access: this.access, sizeBytes });
    return this.volumes.snapshot(volume);
  }
}
