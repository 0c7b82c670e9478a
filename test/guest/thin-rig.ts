/**
 * A thin pool on disks that can fail, and the real backend on it, one after another as processes die;
 * thin-pool-on-disks.ts adds a model of contents and lists.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import type { PoolEvent } from '../../src/backends/backend.js';
import { ThinBackend } from '../../src/backends/thin/thin-backend.js';
import type { ThinPoolStatus } from '../../src/native/dm-addon.js';
import type { BackendOptions } from '../support/backend-process.js';
import { openLedgerInline } from '../support/direct-database.js';
import { DmFixture, type FaultyDisk } from '../support/dm-fixture.js';
import { type NativeHere, nativeHere } from '../support/native-here.js';
import { Workspace } from '../support/workspace.js';
import { guestTest } from './guest.js';

const MIB = 1n << 20n;

export interface RigOptions {
  metadataBytes?: bigint;
  dataBytes?: bigint;
  /** Data that is not kept, at no cost: for pools of which only the metadata matters. */
  dataIsZero?: boolean;
  /** For calls that run beside what the test does meanwhile. */
  native?: () => NativeHere;
  backend?: Partial<BackendOptions>;
}

export class ThinRig {
  /** Events of the backends. */
  readonly events: string[] = [];
  #backend: ThinBackend;

  private constructor(
    readonly workspace: Workspace,
    readonly native: NativeHere,
    readonly fixture: DmFixture,
    readonly metadata: FaultyDisk,
    readonly data: FaultyDisk,
    private readonly changed: Partial<BackendOptions> = {},
  ) {
    this.#backend = this.#make();
  }

  /** The pool is made and started. */
  static async make(label: string, options: RigOptions = {}): Promise<ThinRig> {
    const workspace = new Workspace(label);
    const native = (options.native ?? nativeHere)();
    const fixture = new DmFixture(native, workspace);
    const { metadataBytes = 16n * MIB, dataBytes = 64n * MIB } = options;
    const metadata = await fixture.disk('metadata', metadataBytes);
    const kind = options.dataIsZero === true ? 'zeroDisk' : 'disk';
    const data = await fixture[kind]('data', dataBytes);
    mkdirSync(workspace.path('pool'));
    const rig = new ThinRig(workspace, native, fixture, metadata, data, options.backend);
    await rig.backend.start();
    return rig;
  }

  get backend(): ThinBackend {
    return this.#backend;
  }

  /**
   * A backend as of a new process, on the same pool, started. The one before has stopped.
   */
  async next(): Promise<ThinBackend> {
    this.#backend = this.#make();
    await this.#backend.start('existing');
    return this.#backend;
  }

  async restart(): Promise<ThinBackend> {
    await this.#backend.stop();
    return this.next();
  }

  async status(): Promise<ThinPoolStatus> {
    const { status } = await this.native.run('thinPoolStatus', {
      name: await this.poolName(),
      commit: true,
    });
    assert.ok(status !== null, 'the pool is active');
    return status;
  }

  async poolName(): Promise<string> {
    const { devices } = await this.native.run('dmList', { prefix: 'blockdelta-pool-' });
    const [pool] = devices;
    assert.ok(pool !== undefined && devices.length === 1, 'one pool is active');
    return pool.name;
  }

  /** Of all thin devices that the metadata knows. */
  async deviceCount(): Promise<number> {
    await this.status();
    const request = { metadata: this.metadata.path, superblock: 0n, deviceIds: null };
    return (await this.native.run('thinDevices', request)).devices.length;
  }

  async suspendedDevices(): Promise<string[]> {
    const { devices } = await this.native.run('dmList', { prefix: 'blockdelta-' });
    const found = await Promise.all(devices.map(({ name }) => this.native.run('dmFind', { name })));
    return found.flatMap(({ device }) => (device?.suspended === true ? [device.name] : []));
  }

  /** Of a pool that is not active. */
  assertSound(): void {
    execFileSync('thin_check', [this.metadata.path], { stdio: 'pipe' });
  }

  async dispose(): Promise<void> {
    await this.#backend.stop().catch(() => undefined);
    await this.fixture.dispose();
    this.workspace.dispose();
  }

  /** Of the backend, but for its events. */
  get options(): BackendOptions {
    return {
      ...{ pool: 'default', directory: this.directory, owner: 'rig' },
      devices: { metadata: this.metadata.path, data: this.data.path },
      ...{ embeddedPoolBytes: null, dataBlockBytes: 65536n },
      ...{ overcommitPercent: 100n, reservePercent: 0n },
      ...{ passDiscards: true, errorWhenFull: true, lowWaterPercent: 25n },
      ...this.changed,
    };
  }

  get directory(): string {
    return this.workspace.path('pool');
  }

  #make(): ThinBackend {
    const options = {
      ...this.options,
      onEvent: ({ level, message }: PoolEvent) => this.events.push(`${level}: ${message}`),
    };
    return new ThinBackend(this.native, options, openLedgerInline);
  }
}

/** A test with a pool of its own. */
export function rigTest(
  title: string,
  options: RigOptions,
  run: (rig: ThinRig) => Promise<void>,
): void {
  guestTest(title, async () => {
    const rig = await ThinRig.make('rig', options);
    try {
      await run(rig);
    } finally {
      await rig.dispose();
    }
  });
}

/** Waits for an event like that. */
export const told = (rig: ThinRig, event: RegExp): Promise<void> =>
  until(`${event} is told`, () => event.test(rig.events.join('\n')));

/** Polls for a condition; the backend probes its pool every few seconds. */
export async function until(what: string, isSo: () => Promise<boolean> | boolean): Promise<void> {
  for (const end = Date.now() + 60_000; !(await isSo()); await delay(200)) {
    assert.ok(Date.now() < end, `it never came to this: ${what}`);
  }
}
