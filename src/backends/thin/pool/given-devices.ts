/** A pool on two block devices that the operator names: they are used as they are, and never made. */
import { CsiError } from '../../../base/errors.js';
import { blockNumber, isBlockDevice } from './block-numbers.js';
import type { OpenDevices, PoolDevices } from './pool-devices.js';

export class GivenDevices implements PoolDevices {
  readonly areOurs = false;

  constructor(
    private readonly pool: string,
    /** Paths such as those of /dev/disk/by-id. */
    private readonly paths: { metadata: string; data: string },
  ) {}

  async exist(): Promise<boolean> {
    const { metadata, data } = this.paths;
    return (await isBlockDevice(metadata)) && (await isBlockDevice(data));
  }

  async make(): Promise<void> {}

  async open(): Promise<OpenDevices> {
    const { metadata, data } = this.paths;
    if ((await blockNumber(metadata)) === (await blockNumber(data))) {
      throw CsiError.failedPrecondition(
        `pool '${this.pool}': ${metadata} and ${data} are one device, and a thin pool needs two`,
      );
    }
    return { metadataPath: metadata, dataPath: data };
  }

  async growMetadata(): Promise<boolean> {
    return false;
  }

  async freeBelow(): Promise<null> {
    return null;
  }

  async release(): Promise<void> {}
}
