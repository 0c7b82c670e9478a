/** Reflink pools on file systems of their own, and the backends that tests open on them. */
import { after, type before } from 'node:test';

import { ReflinkBackend } from '../../src/driver/backends/reflink/reflink-backend.js';
import { NativePool } from '../../src/driver/native/pool.js';
import { makePoolFileSystem, type PoolKind, skipUnlessRoot, Workspace } from '../support/workspace.js';

type Options = ConstructorParameters<typeof ReflinkBackend>[1];

export class ReflinkPool {
  workspace!: Workspace;
  native!: NativePool;
  /** The mount point. */
  directory!: string;
  #backends: ReflinkBackend[] = [];

  make(label: string, kind: PoolKind, sizeMiB?: number): void {
    this.workspace = new Workspace(label);
    this.native = new NativePool(2);
    this.directory = makePoolFileSystem(this.workspace, kind, sizeMiB);
  }

  /** Stopped with the pool. */
  backend(options: Partial<Options>): ReflinkBackend {
    const where = { pool: 'default', directory: this.directory, embeddedPoolBytes: null };
    const policy = { owner: '0'.repeat(32), overcommitPercent: 100n, reservePercent: 0n };
    const backend = new ReflinkBackend(this.native, { ...where, ...policy, ...options });
    this.#backends.push(backend);
    return backend;
  }

  /** Started. */
  async open(options: Partial<Options> = {}): Promise<ReflinkBackend> {
    const backend = this.backend(options);
    await backend.start();
    return backend;
  }

  async dispose(): Promise<void> {
    for (const backend of this.#backends.splice(0)) await backend.stop();
    await this.native?.close();
    this.workspace?.dispose();
  }
}

/** For the tests of the calling file. */
export class ReflinkFixture extends ReflinkPool {
  /** @param hook when it is made: `before`, or anew by `beforeEach` */
  constructor(label: string, kind: PoolKind, sizeMiB: number, hook: typeof before) {
    super();
    hook(async () => {
      if (skipUnlessRoot !== false) return;
      await this.dispose();
      this.make(label, kind, sizeMiB);
    });
    after(() => this.dispose());
  }
}
