/** Makes a temporary directory, and removes everything below it: mounts, loop devices, files. */
import { mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { readMountInfo } from '../../base/system/mountinfo.js';
import { run } from './run.js';
import type { Settings } from './suite.js';

/** A device may stay in use for a moment after its mount has gone. */
const RELEASE_ATTEMPTS = 100;
const RELEASE_PAUSE_MS = 100;

export class Workspace {
  private constructor(readonly directory: string) {}

  /** Makes a workspace in the work directory. The settings' cleanup removes it, after every step that is registered later. */
  static make({ cleanup, workDirectory }: Pick<Settings, 'cleanup' | 'workDirectory'>, label: string): Workspace {
    const directory = mkdtempSync(join(workDirectory, `blockdelta-bench-${label}-`));
    const workspace = new Workspace(realpathSync(directory));
    cleanup.defer(() => workspace.dispose());
    return workspace;
  }

  path(...names: string[]): string {
    return join(this.directory, ...names);
  }

  /** Unmounts, detaches and removes everything. Rejects if something stays in use. */
  async dispose(): Promise<void> {
    for (let attempt = 0; attempt < RELEASE_ATTEMPTS; attempt += 1) {
      const mounts = await this.#mounts();
      const loops = this.#loops();
      if (mounts.length === 0 && loops.length === 0) break;
      for (const mountPoint of mounts.reverse()) await run('umount', [mountPoint]);
      for (const device of loops) {
        // The loop device of a mount that has just gone may be gone too, and others may have its number. The open
        // descriptor prevents that from here on.
        const held = await open(device).catch(() => null);
        try {
          if (held !== null && this.#loops().includes(device)) await run('losetup', ['-d', device]);
        } finally {
          await held?.close();
        }
      }
      if (attempt > 0) await delay(RELEASE_PAUSE_MS);
    }
    const left = [...(await this.#mounts()), ...this.#loops()];
    if (left.length > 0) throw new Error(`still in use below ${this.directory}: ${left.join(', ')}`);
    // Snapshots in a pool on the host's own file system are immutable.
    await run('chattr', ['-R', '-f', '-i', this.directory]).catch(() => undefined);
    rmSync(this.directory, { recursive: true, force: true });
  }

  /** Returns the mount points in the order in which they were mounted. */
  async #mounts(): Promise<string[]> {
    return (await readMountInfo())
      .map(({ mountPoint }) => mountPoint)
      .filter((mountPoint) => mountPoint.startsWith(`${this.directory}/`));
  }

  #loops(): string[] {
    return readdirSync('/sys/block')
      .filter((name) => name.startsWith('loop'))
      .filter((name) => {
        try {
          const file = readFileSync(`/sys/block/${name}/loop/backing_file`, 'utf8');
          return file.startsWith(`${this.directory}/`);
        } catch {
          // The loop device is not attached.
          return false;
        }
      })
      .map((name) => `/dev/${name}`);
  }
}
