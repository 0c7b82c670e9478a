/**
 * The change lists that a thin pool retains of deleted snapshots (docs/retained-bases.md), in `lists/` of its
 * directory:
 *
 *   <base>.to.<target>   what differs between two snapshots of a volume
 *   <any of these>.tmp   being made; replaced by the next attempt, removed at the next start
 *
 * Makes, joins and removes them. Which ones are needed, and where they lead, is not decided here.
 */
import { mkdir, readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { errorCode } from '../../../../base/errors.js';
import { SingleFlight } from '../../../../base/single-flight.js';
import type { BuiltStep, ChangeListNames } from '../../../native/change-list-addon.js';
import type { NativeRunner } from '../../../native/pool.js';
import type { ThinDeviceRef } from '../../../native/thin-addon.js';

export interface Step {
  baseId: string;
  targetId: string;
  path: string;
  /** Size of the file. */
  storedBytes: bigint;
}

/** A snapshot that a list is made from. */
export interface StepEnd {
  id: string;
  sizeBytes: bigint;
}

const SEPARATOR = '.to.';
const TEMPORARY = '.tmp';
/** Of one native call: about 0.1 s in memory, or 1.5 s on a disk. */
const STEP_NODES = 65_536;

export class RetainedSteps {
  readonly #directory: string;
  readonly #building = new SingleFlight<string, void>();
  /** Counts the beginnings and ends of removals. */
  #removals = 0;

  constructor(
    private readonly native: NativeRunner,
    private readonly metadataPath: string,
    poolDirectory: string,
  ) {
    this.#directory = join(poolDirectory, 'lists');
  }

  /** As it was at one moment: a list that another one takes the place of is removed when that is there. */
  async all(): Promise<Step[]> {
    for (;;) {
      const removals = this.#removals;
      const found = await Promise.all((await this.#names()).map((name) => this.#step(name)));
      if (this.#removals === removals) return found.filter((step) => step !== null);
    }
  }

  /**
   * Makes the list from a snapshot, or from the bookmark of a deleted one, to a later snapshot. Durable when it
   * returns. SCAN_REPLACED if one of the devices is deleted meanwhile.
   */
  async build(
    base: StepEnd & { device: ThinDeviceRef | null; bookmarkPath: string | null },
    target: StepEnd & { device: ThinDeviceRef },
  ): Promise<Step> {
    const names = this.#namesOf(base.id, target.id);
    await this.#building.run(names.finalPath, async () => {
      await mkdir(this.#directory, { recursive: true, mode: 0o700 });
      const request = { metadata: this.metadataPath, target, base, names, maxNodes: STEP_NODES };
      try {
        let progress: BigUint64Array | null = null;
        for (let done = false; !done; ) {
          const step: BuiltStep = await this.native.run('buildThinList', { ...request, progress });
          ({ done, progress } = step);
        }
      } catch (thrown) {
        await rm(names.temporaryPath, { force: true });
        throw thrown;
      }
    });
    const { size } = await stat(names.finalPath, { bigint: true });
    const path = names.finalPath;
    return { baseId: base.id, targetId: target.id, path, storedBytes: size };
  }

  /** The pool's time when the target of the list was created. LIST_INVALID if the list is damaged. */
  async targetTime({ path }: Step): Promise<number> {
    return Number((await this.native.run('changeListHead', { path })).target.generation);
  }

  /** Makes one list of the older one and of a newer one, which begins where that ends. Both stay. */
  async join(older: Step, newer: Step): Promise<void> {
    const names = this.#namesOf(older.baseId, newer.targetId);
    const [olderPath, newerPath] = [older.path, newer.path];
    try {
      await this.native.run('joinChangeLists', { olderPath, newerPath, names });
    } catch (thrown) {
      await rm(names.temporaryPath, { force: true });
      throw thrown;
    }
  }

  async remove({ path }: Step): Promise<void> {
    this.#removals += 1;
    try {
      await rm(path, { force: true });
    } finally {
      this.#removals += 1;
    }
  }

  /** Removes unfinished lists, such as a kill leaves, and returns their names. */
  async sweep(): Promise<string[]> {
    const swept = (await this.#names()).filter((name) => name.endsWith(TEMPORARY));
    for (const name of swept) await rm(join(this.#directory, name), { force: true });
    return swept;
  }

  /** Null: the name is not that of a complete list, or the list is gone. */
  async #step(name: string): Promise<Step | null> {
    const [baseId = '', targetId = '', ...rest] = name.split(SEPARATOR);
    if (baseId === '' || targetId === '' || rest.length > 0 || name.endsWith(TEMPORARY))
      return null;
    const path = join(this.#directory, name);
    try {
      const { size } = await stat(path, { bigint: true });
      return { baseId, targetId, path, storedBytes: size };
    } catch (thrown) {
      if (errorCode(thrown) === 'ENOENT') return null;
      throw thrown;
    }
  }

  async #names(): Promise<string[]> {
    try {
      return await readdir(this.#directory);
    } catch (thrown) {
      // Nothing was ever retained as a list.
      if (errorCode(thrown) === 'ENOENT') return [];
      throw thrown;
    }
  }

  #namesOf(baseId: string, targetId: string): ChangeListNames {
    const finalPath = join(this.#directory, `${baseId}${SEPARATOR}${targetId}`);
    return { temporaryPath: `${finalPath}${TEMPORARY}`, finalPath };
  }
}
