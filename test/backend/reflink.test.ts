import { writeFileSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { ReflinkBackend } from '../../src/backends/reflink/reflink-backend.js';
import { NativePool } from '../../src/native/pool.js';
import {
  makePoolFileSystem,
  type PoolKind,
  skipUnlessRoot,
  Workspace,
} from '../support/workspace.js';
import { describeBackend } from './backend-contract.js';
import { DeviceHarness } from './device-harness.js';
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

class ReflinkHarness extends DeviceHarness implements BackendHarness {
  readonly discardGranularity = 4096;
  readonly backend: ReflinkBackend;

  private constructor(
    private readonly workspace: Workspace,
    private readonly native: NativePool,
    private readonly directory: string,
    private readonly embedded: boolean,
  ) {
    super();
    this.backend = this.#makeBackend();
  }

  static async make(kind: PoolKind): Promise<ReflinkHarness> {
    const workspace = new Workspace(`contract-${kind}`);
    const directory = makePoolFileSystem(workspace, kind);
    return new ReflinkHarness(workspace, new NativePool(2), directory, kind === 'ext4');
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
    // An image of a pool grows by what its host has free.
    return free.reduce((sum, bytes) => sum + bytes);
  }

  async reopen(): Promise<ReflinkBackend> {
    const backend = this.#makeBackend();
    await backend.start();
    return backend;
  }

  async dispose(): Promise<void> {
    this.releaseAll();
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
}
