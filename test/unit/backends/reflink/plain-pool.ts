/**
 * A reflink pool on a plain directory, for what needs no clones and no rights: snapshots are files, a list is an empty
 * one, and which snapshots the kernel calls changed is up to the test.
 */
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import type { PoolEvent } from '../../../../src/driver/backends/backend.js';
import { ReflinkBackend } from '../../../../src/driver/backends/reflink/reflink-backend.js';
import type { Addon, FileState } from '../../../../src/driver/native/addon.js';
import type { BuildChangeListRequest } from '../../../../src/driver/native/change-list-addon.js';
import { newSnapshot } from '../../../backend/harness.js';
import { nativeHere } from '../../../support/native-here.js';
import { temporaryDirectory } from '../../../support/temporary.js';

type Calls = Partial<Record<keyof Addon, (request: never) => Promise<object>>>;

export class PlainPool {
  readonly directory = temporaryDirectory();
  readonly events: PoolEvent[] = [];
  /** Snapshots whose file no longer matches its seal. */
  readonly changed = new Set<string>();
  readonly #real = nativeHere();
  readonly backend = new ReflinkBackend(this.#native(), {
    pool: 'default',
    directory: this.directory,
    embeddedPoolBytes: null,
    owner: '0'.repeat(32),
    overcommitPercent: 100n,
    reservePercent: 0n,
    changeLists: true,
    onEvent: (event) => this.events.push(event),
  });

  path(...names: string[]): string {
    return join(this.directory, ...names);
  }

  snapshot(): string {
    const id = newSnapshot();
    writeFileSync(this.path('snapshots', id), '');
    return id;
  }

  /** As a deletion does. */
  async remove(snapshotId: string, nextId: string | null): Promise<void> {
    await this.backend.bases.retain(snapshotId, nextId);
    await this.backend.snapshots.delete(snapshotId);
  }

  #native(): never {
    const calls: Calls = {
      probeReflink: async () => ({ supported: true }),
      makeSubvolume: async ({ finalPath }: { finalPath: string }) => ({
        made: mkdirSync(finalPath, { recursive: true }),
      }),
      endUnsafeDirectIo: async () => ({}),
      removeFile: async ({ path }: { path: string }) => ({ gone: rmSync(path, { force: true }) }),
      fileState: async (request: { path: string }) => {
        const { state } = await this.#real.run('fileState', request);
        return { state: state === null ? null : this.#frozen(request.path, state) };
      },
      buildChangeList: async ({ names, base, target }: BuildChangeListRequest) => {
        for (const file of [base, target]) {
          if (file === null || !this.changed.has(file.id)) continue;
          throw Object.assign(new Error(`${file.id} was changed`), { code: 'SCAN_MUTABLE' });
        }
        writeFileSync(names.finalPath, '');
        return { done: true, progress: new BigUint64Array() };
      },
      verifyChangeLists: async () => ({}),
    };
    const run = (method: keyof Addon, request: never): Promise<object> =>
      calls[method]?.(request) ?? this.#real.run(method as 'fileState', request);
    return { run } as never;
  }

  #frozen(path: string, state: FileState): FileState {
    return { ...state, immutable: true, matchesSeal: !this.changed.has(basename(path)) };
  }
}
