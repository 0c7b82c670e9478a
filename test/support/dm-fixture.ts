/**
 * Disks that fail on demand, created with device-mapper through the addon: a power cut, a metadata device
 * that refuses writes, a disk of any size that takes no space.
 *
 * Needs a kernel with device-mapper, a guest in general. Knows nothing of backends; a pool is whatever
 * was put on the disks.
 */
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { readdirSync, readFileSync, truncateSync } from 'node:fs';
import { basename } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { SystemError } from '../../src/base/errors.js';
import type { NativeRunner } from '../../src/driver/native/pool.js';
import { loopOn } from './loops.js';
import type { Workspace } from './workspace.js';

const SECTOR_BYTES = 512n;
/** Of what the tests make themselves; pools and volumes have names of their own. */
export const DISK_PREFIX = 'blockdelta-disk-';
/** How long an opener that is on its way out may keep a device. */
const REMOVAL_MS = 10_000;

interface Table {
  type: string;
  table: string;
}

/** A block device that works, refuses writes, or refuses everything, and changes that at any moment. */
export class FaultyDisk {
  constructor(
    private readonly native: NativeRunner,
    readonly name: string,
    /** /dev/dm-N, as long as the disk exists. */
    readonly path: string,
    private sizeBytes: bigint,
    private readonly working: Table,
    /** Null: nothing below it. */
    private readonly file: string | null,
  ) {}

  /** From now on every read and write fails. What was written before stays. */
  async fail(): Promise<void> {
    await this.#load({ type: 'error', table: '' });
  }

  /** From now on writes fail and reads are good. */
  async failWrites(): Promise<void> {
    const [below] = this.working.table.split(' ');
    await this.#load({ type: 'flakey', table: `${below} 0 0 60 1 error_writes` });
  }

  /** Works again, with everything written while it worked. */
  async work(): Promise<void> {
    await this.#load(this.working);
  }

  async grow(sizeBytes: bigint): Promise<void> {
    if (this.file !== null) {
      truncateSync(this.file, Number(sizeBytes));
      await this.native.run('loopResize', { backingPath: this.file });
    }
    this.sizeBytes = sizeBytes;
    await this.work();
  }

  /** What is in flight is held back over the change and meets the new table. */
  async #load(table: Table): Promise<void> {
    await this.native.run('dmReload', {
      name: this.name,
      readOnly: false,
      sizeSectors: this.sizeBytes / SECTOR_BYTES,
      ...table,
      noFlush: true,
      lockFileSystem: false,
    });
  }
}

export class DmFixture {
  readonly #run = randomBytes(4).toString('hex');
  readonly #disks: FaultyDisk[] = [];

  constructor(
    readonly native: NativeRunner,
    private readonly workspace: Workspace,
  ) {}

  /** On a sparse file in the workspace, which must take direct I/O. Reads as zeros. */
  async disk(label: string, sizeBytes: bigint): Promise<FaultyDisk> {
    const file = this.workspace.path(`${label}.disk`);
    const path = await loopOn(this.native, file, sizeBytes);
    return this.#make(label, sizeBytes, { type: 'linear', table: `${path} 0` }, file);
  }

  /** A disk of any size that takes no space: discards writes and reads as zeros. */
  async zeroDisk(label: string, sizeBytes: bigint): Promise<FaultyDisk> {
    return this.#make(label, sizeBytes, { type: 'zero', table: '' }, null);
  }

  /**
   * As if the power had gone: the disks hold what had reached them at this moment, everything on top of
   * them is gone, and then they work again. Devices must be closed and unmounted, or be so soon.
   */
  async powerCut(): Promise<void> {
    for (const disk of this.#disks) await disk.fail();
    for (const { path } of this.#disks) await this.#removeUsers(basename(path));
    for (const disk of this.#disks) await disk.work();
  }

  /** Removes everything that was made, and what stands on it. */
  async dispose(): Promise<void> {
    for (const { name, path } of this.#disks.splice(0)) {
      await this.#removeUsers(basename(path));
      await this.#remove(name);
    }
  }

  async #make(label: string, sizeBytes: bigint, working: Table, file: string | null): Promise<FaultyDisk> {
    const name = `${DISK_PREFIX}${label}-${this.#run}`;
    const { device } = await this.native.run('dmCreate', {
      name,
      uuid: '',
      readOnly: false,
      sizeSectors: sizeBytes / SECTOR_BYTES,
      ...working,
    });
    const disk = new FaultyDisk(this.native, name, device.path, sizeBytes, working, file);
    this.#disks.push(disk);
    return disk;
  }

  /** Removes the devices that stand on that one, the uppermost first. */
  async #removeUsers(kernelName: string): Promise<void> {
    for (const user of readdirSync(`/sys/block/${kernelName}/holders`)) {
      const name = readFileSync(`/sys/block/${user}/dm/name`, 'utf8').trim();
      await this.#removeUsers(user);
      await this.#remove(name);
    }
  }

  async #remove(name: string): Promise<void> {
    for (const end = Date.now() + REMOVAL_MS; ; await delay(100)) {
      try {
        // A suspended device cannot be removed while I/O waits for it.
        await this.native.run('dmResume', { name }).catch(ignoreAbsence);
        await this.native.run('dmRemove', { name, deferred: false });
        return;
      } catch (thrown) {
        if (!(thrown instanceof SystemError && thrown.code === 'EBUSY')) throw thrown;
        if (Date.now() > end) throw new Error(`${name} stays busy:\n${mountsAndHolders()}`);
      }
    }
  }
}

function ignoreAbsence(thrown: unknown): void {
  if (!(thrown instanceof SystemError && thrown.code === 'ENXIO')) throw thrown;
}

function mountsAndHolders(): string {
  return execFileSync('lsblk', ['--output', 'NAME,MOUNTPOINTS'], { encoding: 'utf8' });
}
