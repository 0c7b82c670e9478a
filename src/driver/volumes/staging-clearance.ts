/**
 * Whether volumes that have had copies on other nodes may be staged since this boot.
 *
 * While the node was away, an operator may have retired it, and such a volume may have been recovered from its copy on another node.
 * Two volumes of one user would then be written to. So after each boot, a router, which calls only nodes that are not retired,
 * has to say first that they may be staged.
 *
 *   <state directory>/staging-cleared   the boot id of the boot for which that was said
 *
 * An operator without a router copies the boot id there. Whoever confirms what a catalogue has lost withdraws the clearance.
 */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { CsiError } from '../../base/errors.js';
import { flush } from '../../base/system/checked-files.js';
import { readOwn, writeOwn } from '../../base/system/own-files.js';

/** The most bytes that are read. A boot id has 36. */
const MAX_BYTES = 4096;

export class StagingClearance {
  readonly #file: string;

  /** @param bootId of the machine */
  constructor(
    stateDirectory: string,
    private readonly bootId: string,
  ) {
    this.#file = fileIn(stateDirectory);
  }

  async isGiven(): Promise<boolean> {
    return (await readOwn(this.#file, MAX_BYTES)) === this.bootId;
  }

  /** Durable when it resolves. */
  async give(): Promise<void> {
    await writeOwn(this.#file, `${this.bootId}\n`);
  }

  /** UNAVAILABLE until the clearance is given. */
  async assertGiven(volumeId: string): Promise<void> {
    if (await this.isGiven()) return;
    throw CsiError.unavailable(
      `volume ${volumeId} has had copies on other nodes, and may have been recovered there while this node was away: since its ` +
        'boot no router has said that the node is not retired. Wait for a router; or, if nothing was recovered, cp ' +
        `/proc/sys/kernel/random/boot_id ${this.#file}`,
    );
  }
}

const fileIn = (stateDirectory: string): string => join(stateDirectory, 'staging-cleared');

/** Until a router gives it again. Durable when it resolves. */
export async function withdrawClearance(stateDirectory: string): Promise<void> {
  await rm(fileIn(stateDirectory), { force: true });
  await flush(stateDirectory);
}
