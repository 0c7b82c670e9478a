/**
 * The two block devices below a thin pool, one for its metadata and one for its data: the interface that
 * the pool sees, and the case in which the operator names them. The other case is a pool on image files
 * of its own (embedded-devices.ts).
 */
import { stat } from 'node:fs/promises';
import { CsiError, insteadOf } from '../../../../base/errors.js';
import { majorOf, minorOf } from '../../../../base/system/mountinfo.js';

export interface PoolDevices {
  /** Whether the plugin created the devices, so that nobody else has ever written to them. */
  readonly areOurs: boolean;
  /** Whether both devices exist. Creates nothing. */
  exist(): Promise<boolean>;
  /** Creates missing devices, which read as zeros, if the plugin is to create them. */
  create(): Promise<void>;
  /** Attaches the devices if needed. Idempotent. FAILED_PRECONDITION if a device is missing. */
  open(): Promise<OpenDevices>;
  /**
   * Grows the metadata device if possible, and returns whether it has grown. RESOURCE_EXHAUSTED if the storage below has no
   * room.
   */
  growMetadata(): Promise<boolean>;
  /**
   * Space that the storage below can really provide to a pool that uses this much of its data device; null if the devices own
   * all of their space.
   */
  freeBelow(usedBytes: bigint): Promise<bigint | null>;
  /** Releases what open() acquired. The pool must not be active. */
  release(): Promise<void>;
}

export interface OpenDevices {
  metadataPath: string;
  dataPath: string;
}

/** Devices that the operator names. The pool uses them as they are. */
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

  async create(): Promise<void> {}

  async open(): Promise<OpenDevices> {
    const { metadata, data } = this.paths;
    if ((await blockNumber(metadata)) === (await blockNumber(data))) {
      throw CsiError.failedPrecondition(
        `pool '${this.pool}': ${metadata} and ${data} are one device, but a thin pool needs two; name two ` +
          'in BLOCKDELTA_POOLS',
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

/** "major:minor", as device-mapper tables name a device. FAILED_PRECONDITION if the path leads to none. */
export async function blockNumber(path: string): Promise<string> {
  const found = await stat(path).catch(insteadOf(['ENOENT'], null));
  if (found === null || !found.isBlockDevice()) {
    throw CsiError.failedPrecondition(
      `${path} ${found === null ? 'does not exist' : 'is not a block device'}: a thin pool needs two block ` +
        'devices; check BLOCKDELTA_POOLS, and whether the disk came up',
    );
  }
  return `${majorOf(found.rdev)}:${minorOf(found.rdev)}`;
}

async function isBlockDevice(path: string): Promise<boolean> {
  const found = await stat(path).catch(insteadOf(['ENOENT'], null));
  return found?.isBlockDevice() ?? false;
}
