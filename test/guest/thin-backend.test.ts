/**
 * The whole backend contract on a real thin pool of two devices, with discards passed down, in a nightly run.
 */
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { hostFreeBytes } from '../../src/driver/backends/image-files.js';
import type { ThinBackend } from '../../src/driver/backends/thin/thin-backend.js';
import { describeBackend } from '../backend/backend-contract.js';
import { DeviceHarness } from '../backend/device-harness.js';
import { type BackendHarness, type HalfMade, type StartedBackend, started } from '../backend/harness.js';
import { isNightly } from '../support/nightly.js';
import { guestSkip } from './guest.js';
import { BLOCK_BYTES, ThinPoolOnDisks } from './thin-pool-on-disks.js';

/** Far from those that the backend gives. */
const FOREIGN_ID = 9_000_000;

class ThinHarness extends DeviceHarness implements BackendHarness {
  readonly discardGranularity = BLOCK_BYTES;
  readonly backend: ThinBackend;
  readonly #others: ThinBackend[] = [];

  constructor(private readonly pool: ThinPoolOnDisks) {
    super();
    this.backend = pool.backend;
  }

  /** Killed when the devices are there, and the pool's transaction id is not raised yet. */
  async leaveTemporary(objects: readonly HalfMade[]): Promise<string[]> {
    const devices = objects.map(({ of, id }) => ({
      objectId: id,
      kind: of,
      lineage: id,
      sizeBytes: BigInt(BLOCK_BYTES),
    }));
    const { creates } = this.pool.withLedger((ledger) => ledger.begin(devices, []));
    await this.pool.send(...creates.map(({ deviceId }) => `create_thin ${deviceId}`));
    return objects.map(({ id }) => id);
  }

  async leaveForeign(): Promise<void> {
    await this.pool.send(`create_thin ${FOREIGN_ID}`);
  }

  async reallyFree(): Promise<bigint> {
    const { directory, options } = this.pool;
    const { totalDataBlocks, usedDataBlocks } = await this.pool.status();
    const used = usedDataBlocks * BigInt(BLOCK_BYTES);
    const free = totalDataBlocks * BigInt(BLOCK_BYTES) - used;
    if (options.devices !== null) return free;
    const file = statSync(join(directory, 'data.img'), { bigint: true });
    const freed = file.blocks * 512n - used;
    const host = await hostFreeBytes(this.pool.native, directory);
    const below = freed > 0n ? host + freed : host;
    return below < free ? below : free;
  }

  reopen(): Promise<StartedBackend> {
    const backend = this.pool.makeBackend();
    this.#others.push(backend);
    return started(backend);
  }

  async dispose(): Promise<void> {
    this.releaseAll();
    for (const backend of this.#others) await backend.stop();
    await this.pool.dispose();
  }
}

const backend = { overcommitPercent: 100n, lowWaterPercent: 10n };
const make = async (): Promise<ThinHarness> =>
  new ThinHarness(await ThinPoolOnDisks.make({ dataBytes: 1n << 30n, backend }));
if (isNightly) {
  const options = { skip: guestSkip, attaches: true, keepsBases: true, keepsReplicas: true };
  describeBackend('a thin pool on two devices', make, options);
}
