/**
 * The on-disk metadata of a thin pool, in memory, behind the addon's calls. For tests of its readers, also
 * while the pool commits between two calls.
 */
import { SystemError } from '../../src/base/errors.js';
import type { NativeRunner } from '../../src/native/pool.js';
import type { ThinDeviceDetails, ThinSuperblock } from '../../src/native/thin-addon.js';

export type FakeRun = readonly [kind: number, begin: number, length: number];
type Method = 'thinSuperblock' | 'thinDevices' | 'thinDelta';

interface DevicesRequest {
  deviceIds: readonly number[] | null;
}
interface DeltaRequest {
  firstBlock: bigint;
  includeSame: boolean;
}

export class FakeThinPool {
  superblock: ThinSuperblock = {
    checksum: 1,
    needsCheck: false,
    time: 3,
    transactionId: 7n,
    heldRoot: null,
    mappingRoot: 100n,
    detailsRoot: 200n,
    dataBlockBytes: 65536n,
    dataBlocks: 1000n,
    metadataBlocks: 4096n,
  };
  /** The copy that a metadata snapshot holds; null: as the current one. */
  held: ThinSuperblock | null = null;
  readonly devices = new Map<number, ThinDeviceDetails>();
  /** Answers of thinDelta, one after the other. */
  batches: readonly (readonly FakeRun[])[] = [[]];
  /** How often each function was called. */
  readonly calls: Record<Method, number> = { thinSuperblock: 0, thinDevices: 0, thinDelta: 0 };
  /** Devices in one answer at most. */
  devicesPerAnswer = 65_536;
  /** Called before each answer: what happens in the pool meanwhile. */
  meanwhile: (method: Method, call: number) => void = () => undefined;

  addDevice(deviceId: number, root: bigint): void {
    this.devices.set(deviceId, {
      deviceId,
      root,
      mappedBlocks: 10n,
      transactionId: 0n,
      creationTime: 1,
      snapshottedTime: 1,
    });
  }

  /** A commit that wrote to a device: its root moves, and all above it. */
  write(deviceId: number): void {
    const device = this.devices.get(deviceId);
    if (device !== undefined) device.root += 1000n;
    this.superblock = { ...this.superblock, mappingRoot: this.superblock.mappingRoot + 1n };
    this.commit();
  }

  /** A commit after which all roots are in the blocks where they were. */
  commit(): void {
    this.superblock = { ...this.superblock, checksum: this.superblock.checksum + 1 };
  }

  get runner(): NativeRunner {
    const run = async (method: string, request: unknown): Promise<unknown> => {
      const name = method as Method;
      this.calls[name] += 1;
      this.meanwhile(name, this.calls[name]);
      if (name === 'thinSuperblock') {
        const { superblock: block } = request as { superblock: bigint };
        const asked = block === 0n ? this.superblock : (this.held ?? this.superblock);
        return { superblock: { ...asked } };
      }
      if (name === 'thinDevices') return this.#devices(request as DevicesRequest);
      return this.#delta(request as DeltaRequest);
    };
    return { run: run as NativeRunner['run'] };
  }

  #devices({ deviceIds }: DevicesRequest) {
    const known = [...this.devices.values()].map((device) => ({ ...device }));
    if (deviceIds === null) {
      const devices = known.slice(0, this.devicesPerAnswer);
      return { devices, truncated: devices.length < known.length };
    }
    const asked = new Set(deviceIds);
    return { devices: known.filter(({ deviceId }) => asked.has(deviceId)), truncated: false };
  }

  /** `firstBlock` is what the answer before told: the number of the batch, times a thousand. */
  #delta({ firstBlock, includeSame }: DeltaRequest) {
    const index = Number(firstBlock) / 1000;
    const runs = (this.batches[index] ?? []).filter(([kind]) => includeSame || kind !== 0);
    const words = BigUint64Array.from(runs.flat().map(BigInt));
    const done = index === this.batches.length - 1;
    return { words, nextBlock: BigInt((index + 1) * 1000), done, nodes: 5 };
  }
}

export function metadataFailure(code: string): SystemError {
  return new SystemError(code, 'read', '/pool', `/pool: block 12: ${code}`);
}
