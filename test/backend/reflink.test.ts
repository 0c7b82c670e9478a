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

const LABELS = {
  xfs: 'files on xfs',
  'xfs-1k': 'files on xfs with blocks of 1 KiB, without change lists',
  btrfs: 'files on btrfs',
  ext4: 'an image in a directory on ext4',
};

for (const kind of ['xfs', 'xfs-1k', 'btrfs', 'ext4'] as const) {
  const keepsBases = kind !== 'xfs-1k';
  describeBackend(LABELS[kind], () => ReflinkHarness.make(kind, keepsBases), {
    ...{ skip: skipUnlessRoot, attaches: true, keepsBases },
  });
}

class ReflinkHarness extends DeviceHarness implements BackendHarness {
  readonly discardGranularity = 4096;
  readonly backend: ReflinkBackend;
  readonly #backends: ReflinkBackend[] = [];

  private constructor(
    private readonly workspace: Workspace,
    private readonly native: NativePool,
    private readonly directory: string,
    private readonly embedded: boolean,
    private readonly changeLists: boolean,
  ) {
    super();
    this.backend = this.#makeBackend();
  }

  static async make(kind: PoolKind, changeLists: boolean): Promise<ReflinkHarness> {
    const workspace = new Workspace(`contract-${kind}`);
    const directory = makePoolFileSystem(workspace, kind);
    const isEmbedded = kind === 'ext4';
    return new ReflinkHarness(workspace, new NativePool(2), directory, isEmbedded, changeLists);
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
    for (const backend of this.#backends) await backend.stop();
    await this.native.close();
    this.workspace.dispose();
  }

  get #root(): string {
    return this.embedded ? join(this.directory, 'mount') : this.directory;
  }

  #makeBackend(): ReflinkBackend {
    const backend = new ReflinkBackend(this.native, {
      pool: 'default',
      directory: this.directory,
      embeddedPoolBytes: EMBEDDED_BYTES,
      overcommitPercent: 100n,
      reservePercent: 0n,
      owner: 'contract',
      changeLists: this.changeLists,
    });
    this.#backends.push(backend);
    return backend;
  }
}
