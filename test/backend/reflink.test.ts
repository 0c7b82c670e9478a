import { closeSync, openSync, readSync, writeFileSync, writeSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { ReflinkBackend } from '../../src/backends/reflink/reflink-backend.js';
import { NativePool } from '../../src/native/pool.js';
import { blockDiscard } from '../support/ioctls.js';
import {
  makePoolFileSystem,
  type PoolKind,
  skipUnlessRoot,
  Workspace,
} from '../support/workspace.js';
import { describeBackend } from './backend-contract.js';
import type { BackendHarness, HalfMade } from './harness.js';

const EMBEDDED_BYTES = 1n << 30n;

for (const kind of ['xfs', 'xfs-1k', 'btrfs', 'ext4'] as const) {
  const label = kind === 'ext4' ? 'an image in a directory on ext4' : `files on ${kind}`;
  describeBackend(label, () => ReflinkHarness.make(kind), {
    skip: skipUnlessRoot,
    attaches: true,
    keepsBases: false,
  });
}

class ReflinkHarness implements BackendHarness {
  readonly attaches = true;
  readonly discardGranularity = 4096;
  readonly backend: ReflinkBackend;
  readonly #open = new Map<string, number>();

  private constructor(
    private readonly workspace: Workspace,
    private readonly native: NativePool,
    private readonly directory: string,
    private readonly embedded: boolean,
  ) {
    this.backend = this.#makeBackend();
  }

  static async make(kind: PoolKind): Promise<ReflinkHarness> {
    const workspace = new Workspace(`contract-${kind}`);
    const directory = makePoolFileSystem(workspace, kind);
    return new ReflinkHarness(workspace, new NativePool(2), directory, kind === 'ext4');
  }

  async write(volumeId: string, offset: number, bytes: Buffer): Promise<void> {
    writeSync(await this.#device(volumeId), bytes, 0, bytes.length, offset);
  }

  async discard(volumeId: string, offset: number, length: number): Promise<void> {
    blockDiscard(await this.#device(volumeId), offset, length);
  }

  async read(volumeId: string): Promise<Buffer> {
    const fd = await this.#device(volumeId);
    const device = await this.backend.findAttachment(volumeId);
    const content = Buffer.alloc(Number(device?.sizeBytes));
    readSync(fd, content, 0, content.length, 0);
    return content;
  }

  async release(volumeId: string): Promise<void> {
    const fd = this.#open.get(volumeId);
    if (fd !== undefined) closeSync(fd);
    this.#open.delete(volumeId);
  }

  async leaveTemporary(objects: readonly HalfMade[]): Promise<string[]> {
    return objects.map(({ of, id }) => {
      writeFileSync(join(this.#root, `${of}s`, `${id}.tmp`), 'half a clone');
      return `${id}.tmp`;
    });
  }

  async leaveForeign(): Promise<void> {
    writeFileSync(join(this.#root, 'volumes', 'readme.txt'), 'not of the plugin');
  }

  async reallyFree(): Promise<bigint> {
    const places = this.embedded ? [this.directory, this.#root] : [this.directory];
    const free = await Promise.all(
      places.map(async (place) => {
        const { bavail, bsize } = await statfs(place, { bigint: true });
        return bavail * bsize;
      }),
    );
    return free.reduce((least, bytes) => (bytes < least ? bytes : least));
  }

  async reopen(): Promise<ReflinkBackend> {
    const backend = this.#makeBackend();
    await backend.start();
    return backend;
  }

  async dispose(): Promise<void> {
    for (const fd of this.#open.values()) closeSync(fd);
    await this.native.close();
    this.workspace.dispose();
  }

  get #root(): string {
    return this.embedded ? join(this.directory, 'mount') : this.directory;
  }

  #makeBackend(): ReflinkBackend {
    return new ReflinkBackend(this.native, {
      pool: 'default',
      directory: this.directory,
      embeddedPoolBytes: EMBEDDED_BYTES,
      overcommitPercent: 100n,
      reservePercent: 0n,
      owner: 'contract',
    });
  }

  /** Kept open: the last close of a block device writes it out. */
  async #device(volumeId: string): Promise<number> {
    const known = this.#open.get(volumeId);
    if (known !== undefined) return known;
    const { devicePath } = await this.backend.attach(volumeId, { readOnly: false });
    const fd = openSync(devicePath, 'r+');
    this.#open.set(volumeId, fd);
    return fd;
  }
}
