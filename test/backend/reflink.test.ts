import { writeFileSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { join } from 'node:path';
import type { ReflinkBackend } from '../../src/driver/backends/reflink/reflink-backend.js';
import { isNightly } from '../support/nightly.js';
import { type PoolKind, skipUnlessRoot } from '../support/workspace.js';
import { describeBackend } from './backend-contract.js';
import { DeviceHarness } from './device-harness.js';
import { type BackendHarness, type HalfMade, type StartedBackend, started } from './harness.js';
import { ReflinkPool } from './reflink-fixture.js';

const EMBEDDED_BYTES = 1n << 30n;

const LABELS = {
  xfs: 'files on xfs',
  'xfs-1k': 'files on xfs with blocks of 1 KiB, without change lists',
  btrfs: 'files on btrfs',
  ext4: 'an image in a directory on ext4',
};

// An image is the same to this backend as a disk.
for (const kind of ['xfs', 'xfs-1k', 'btrfs', ...(isNightly ? ['ext4' as const] : [])] as const) {
  const keepsBases = kind !== 'xfs-1k';
  describeBackend(LABELS[kind], async () => new ReflinkHarness(kind, keepsBases), {
    skip: skipUnlessRoot,
    attaches: true,
    keepsBases,
    keepsReplicas: true,
  });
}

class ReflinkHarness extends DeviceHarness implements BackendHarness {
  readonly discardGranularity = 4096;
  readonly backend: ReflinkBackend;
  readonly #pool = new ReflinkPool();
  readonly #options: { embeddedPoolBytes: bigint; changeLists: boolean };

  constructor(
    private readonly kind: PoolKind,
    changeLists: boolean,
  ) {
    super();
    this.#pool.make(`contract-${kind}`, kind);
    this.#options = { embeddedPoolBytes: EMBEDDED_BYTES, changeLists };
    this.backend = this.#pool.backend(this.#options);
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
    // The image of an embedded pool grows by what its host has free.
    const places = new Set([this.#pool.directory, this.#root]);
    const free = await Promise.all(
      [...places].map(async (place) => {
        const { bavail, bsize } = await statfs(place, { bigint: true });
        return bavail * bsize;
      }),
    );
    return free.reduce((sum, bytes) => sum + bytes);
  }

  reopen(): Promise<StartedBackend> {
    return started(this.#pool.backend(this.#options));
  }

  async dispose(): Promise<void> {
    this.releaseAll();
    await this.#pool.dispose();
  }

  get #root(): string {
    const { directory } = this.#pool;
    return this.kind === 'ext4' ? join(directory, 'mount') : directory;
  }
}
