/**
 * A thin pool for the contract suite: embedded in a directory, or on two devices. Needs a kernel with
 * device-mapper, and a temporary directory whose file system takes direct I/O.
 */
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { hostFreeBytes } from '../../src/backends/image-files.js';
import { ThinBackend, type ThinPoolOptions } from '../../src/backends/thin/thin-backend.js';
import type { ThinPoolStatus } from '../../src/native/dm-addon.js';
import { openLedgerHere, openLedgerInline } from '../support/direct-database.js';
import { loopOn } from '../support/loops.js';
import { type NativeHere, nativeHere } from '../support/native-here.js';
import { Workspace } from '../support/workspace.js';
import { DeviceHarness } from './device-harness.js';
import type { BackendHarness, HalfMade } from './harness.js';

export type ThinKind = 'embedded' | 'given';

const BLOCK_BYTES = 65536;
const POOL_BYTES = 1n << 30n;
const METADATA_BYTES = 32n << 20n;
/** Far from those that the backend gives. */
const FOREIGN_ID = 9_000_000;

export class ThinHarness extends DeviceHarness implements BackendHarness {
  readonly discardGranularity = BLOCK_BYTES;
  readonly backend: ThinBackend;
  readonly #backends: ThinBackend[] = [];

  private constructor(
    private readonly workspace: Workspace,
    readonly native: NativeHere,
    private readonly options: ThinPoolOptions,
  ) {
    super();
    this.backend = this.#makeBackend();
  }

  static async make(kind: ThinKind, options: Partial<ThinPoolOptions> = {}): Promise<ThinHarness> {
    const workspace = new Workspace(`contract-thin-${kind}`);
    const native = nativeHere();
    const disk = (label: string, sizeBytes: bigint) =>
      loopOn(native, workspace.path(`${label}.disk`), sizeBytes);
    return new ThinHarness(workspace, native, {
      pool: 'default',
      directory: workspace.path('pool'),
      owner: 'contract',
      devices:
        kind === 'embedded'
          ? null
          : {
              metadata: await disk('metadata', METADATA_BYTES),
              data: await disk('data', POOL_BYTES),
            },
      embeddedPoolBytes: POOL_BYTES,
      dataBlockBytes: BigInt(BLOCK_BYTES),
      overcommitPercent: 100n,
      reservePercent: 0n,
      passDiscards: true,
      errorWhenFull: true,
      lowWaterPercent: 10n,
      onEvent: () => undefined,
      ...options,
    });
  }

  get devices(): ThinPoolOptions['devices'] {
    return this.options.devices;
  }

  /** Of all devices of the plugin. */
  async dmNames(): Promise<string[]> {
    const { devices } = await this.native.run('dmList', { prefix: 'blockdelta-' });
    return devices.map(({ name }) => name).sort();
  }

  async poolStatus(): Promise<ThinPoolStatus> {
    const request = { name: await this.poolName(), commit: false };
    const { status } = await this.native.run('thinPoolStatus', request);
    if (status === null) throw new Error('the pool is not active');
    return status;
  }

  /** Of its device. */
  async poolName(): Promise<string> {
    const names = (await this.dmNames()).filter((name) => name.startsWith('blockdelta-pool-'));
    const [name] = names;
    if (name === undefined || names.length > 1) throw new Error(`pools: ${names.join(', ')}`);
    return name;
  }

  /** Killed when the devices are there, and the pool's transaction id is not raised yet. */
  async leaveTemporary(objects: readonly HalfMade[]): Promise<string[]> {
    const ledger = openLedgerHere(join(this.options.directory, 'pool.sqlite'));
    const devices = objects.map(({ of, id }) => ({
      ...{ objectId: id, kind: of, lineage: id },
      sizeBytes: BigInt(BLOCK_BYTES),
    }));
    const { creates } = ledger.begin(devices, []);
    await this.#tell(creates.map(({ deviceId }) => `create_thin ${deviceId}`));
    ledger.close();
    return objects.map(({ id }) => id);
  }

  async leaveForeign(): Promise<void> {
    await this.#tell([`create_thin ${FOREIGN_ID}`]);
  }

  async reallyFree(): Promise<bigint> {
    const status = await this.poolStatus();
    const free = (status.totalDataBlocks - status.usedDataBlocks) * BigInt(BLOCK_BYTES);
    if (this.options.devices !== null) return free;
    const file = statSync(join(this.options.directory, 'data.img'), { bigint: true });
    const freed = file.blocks * 512n - status.usedDataBlocks * BigInt(BLOCK_BYTES);
    const host = await hostFreeBytes(this.options.directory);
    const below = freed > 0n ? host + freed : host;
    return below < free ? below : free;
  }

  async reopen(): Promise<ThinBackend> {
    const backend = this.#makeBackend();
    await backend.start();
    return backend;
  }

  async dispose(): Promise<void> {
    this.releaseAll();
    await this.#removeDevices('blockdelta-vol-');
    for (const backend of this.#backends) await backend.stop();
    await this.#removeDevices('blockdelta-pool-');
    this.workspace.dispose();
  }

  /** Also what a test that failed has left. */
  async #removeDevices(prefix: string): Promise<void> {
    for (const name of (await this.dmNames()).filter((found) => found.startsWith(prefix))) {
      await this.native.run('dmResume', { name });
      await this.native.run('dmRemove', { name, deferred: false });
    }
  }

  #makeBackend(): ThinBackend {
    const backend = new ThinBackend(this.native, this.options, openLedgerInline);
    this.#backends.push(backend);
    return backend;
  }

  async #tell(messages: string[]): Promise<void> {
    await this.native.run('thinMessages', { pool: await this.poolName(), messages });
  }
}
