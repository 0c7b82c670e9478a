/** A file system for reflink pools, and the backends that tests open on it. */
import { after, type before } from 'node:test';

import { ReflinkBackend } from '../../src/backends/reflink/reflink-backend.js';
import { NativePool } from '../../src/native/pool.js';
import {
  makePoolFileSystem,
  type PoolKind,
  skipUnlessRoot,
  Workspace,
} from '../support/workspace.js';

type Options = ConstructorParameters<typeof ReflinkBackend>[1];

export class ReflinkFixture {
  workspace!: Workspace;
  native!: NativePool;
  /** The mount point. */
  directory!: string;
  #backends: ReflinkBackend[] = [];

  /** @param hook when it is made: `before`, or anew by `beforeEach` */
  constructor(label: string, kind: PoolKind, sizeMiB: number, hook: typeof before) {
    hook(async () => {
      if (skipUnlessRoot !== false) return;
      await this.#dispose();
      this.workspace = new Workspace(label);
      this.native = new NativePool(1);
      this.directory = makePoolFileSystem(this.workspace, kind, sizeMiB);
    });
    after(() => this.#dispose());
  }

  /** Started; stopped with the fixture. */
  async open(options: Partial<Options> = {}): Promise<ReflinkBackend> {
    const where = { pool: 'default', directory: this.directory, embeddedPoolBytes: null };
    const policy = { owner: 'tests', overcommitPercent: 100n, reservePercent: 0n };
    const backend = new ReflinkBackend(this.native, { ...where, ...policy, ...options });
    this.#backends.push(backend);
    await backend.start();
    return backend;
  }

  async #dispose(): Promise<void> {
    for (const backend of this.#backends.splice(0)) await backend.stop();
    await this.native?.close();
    this.workspace?.dispose();
  }
}
