/**
 * The contents and the capacity of a thin pool, by its ledger, its metadata and the kernel's counters.
 */
import { CsiError } from '../../../base/errors.js';
import type { ThinPoolStatus } from '../../native/dm-addon.js';
import type { PoolCapacity, PoolContents, PoolStatistics } from '../backend.js';
import { poolAccount, type SpacePolicy } from '../pool-account.js';
import type { DeviceRecord } from './ledger/ledger.js';
import type { FoundDevices } from './metadata/metadata-reader.js';
import type { PoolDevices } from './pool/pool-devices.js';
import { METADATA_BLOCK_BYTES } from './pool/pool-growth.js';
import { whyUnwritable } from './pool/pool-health.js';
import type { PoolParts } from './pool-parts.js';

const MINIMUM_VOLUME_BYTES = 1n << 20n;

type OpenParts = Pick<PoolParts, 'ledger' | 'pool' | 'metadata'>;

export async function thinCapacity(
  parts: OpenParts,
  devices: Pick<PoolDevices, 'freeBelow'>,
  policy: SpacePolicy,
): Promise<PoolCapacity> {
  const status = await parts.pool.status();
  if (hasFailed(status)) {
    throw CsiError.failedPrecondition(`pool '${parts.pool.pool}' ${whyUnwritable(status)}`);
  }
  return (await readSpace(parts, status, devices, policy)).capacity;
}

export async function thinStatistics(
  parts: OpenParts,
  devices: Pick<PoolDevices, 'freeBelow'>,
  policy: SpacePolicy,
): Promise<PoolStatistics> {
  const status = await parts.pool.status();
  const { mode, needsCheck } = status;
  if (hasFailed(status)) {
    return { space: null, thin: { mode, needsCheck, data: null } };
  }
  const { dataBlockBytes } = await parts.ledger.pool();
  const data = {
    totalBytes: status.totalDataBlocks * dataBlockBytes,
    usedBytes: status.usedDataBlocks * dataBlockBytes,
  };
  const space = await readSpace(parts, status, devices, policy);
  return { space, thin: { mode, needsCheck, data } };
}

function hasFailed({ mode }: ThinPoolStatus): boolean {
  return mode === 'fail' || mode === 'error';
}

async function readSpace(
  { ledger, metadata }: OpenParts,
  status: ThinPoolStatus,
  devices: Pick<PoolDevices, 'freeBelow'>,
  policy: SpacePolicy,
): Promise<{ capacity: PoolCapacity; promisedBytes: bigint; volumes: Map<string, bigint> }> {
  const { dataBlockBytes } = await ledger.pool();
  const records = (await ledger.devices()).filter(({ kind }) => kind === 'volume');
  const found = await metadata.unconfirmedDevices(records.map(({ deviceId }) => deviceId));
  const free = (status.totalDataBlocks - status.usedDataBlocks) * dataBlockBytes;
  const freeBelow = await devices.freeBelow(status.usedDataBlocks * dataBlockBytes);
  const space = {
    totalBytes: status.totalDataBlocks * dataBlockBytes,
    freeBytes: freeBelow === null || free < freeBelow ? free : freeBelow,
  };
  const minimumVolumeBytes = dataBlockBytes > MINIMUM_VOLUME_BYTES ? dataBlockBytes : MINIMUM_VOLUME_BYTES;
  const sizes = { minimumVolumeBytes, granularityBytes: dataBlockBytes };
  const volumes = new Map<string, bigint>();
  // The space that volumes may still claim: their parts that were never written.
  let promisedBytes = 0n;
  for (const { objectId, deviceId, sizeBytes } of records) {
    const mapped = (found.get(deviceId)?.mappedBlocks ?? 0n) * dataBlockBytes;
    volumes.set(objectId, mapped);
    if (mapped < sizeBytes) promisedBytes += sizeBytes - mapped;
  }
  const capacity = {
    ...poolAccount(space, promisedBytes, sizes, policy),
    metadata: {
      totalBytes: status.totalMetadataBlocks * METADATA_BLOCK_BYTES,
      usedBytes: status.usedMetadataBlocks * METADATA_BLOCK_BYTES,
    },
  };
  return { capacity, promisedBytes, volumes };
}

/** Live objects with a device in the metadata; all other devices there are foreign. */
export async function thinContents({ ledger, metadata }: OpenParts): Promise<PoolContents> {
  const devices = await ledger.devices();
  const found = await metadata.all();
  // Devices created meanwhile are neither listed nor foreign.
  const created = (await ledger.openTransaction())?.creates ?? [];
  const ours = [...devices, ...(await ledger.devices()), ...created];
  const known = new Set(ours.filter((one) => exists(one, found)).map(({ deviceId }) => deviceId));
  const objects = (kind: DeviceRecord['kind']) =>
    devices
      .filter((one) => one.kind === kind && one.state === 'live' && exists(one, found))
      .map(({ objectId, sizeBytes }) => ({ id: objectId, sizeBytes }));
  return {
    volumes: objects('volume'),
    snapshots: objects('snapshot'),
    unknown: [...found.keys()].filter((id) => !known.has(id)).map((id) => `thin device ${id}`),
  };
}

/** A device with the same id that was created in another transaction is another device. */
function exists({ deviceId, madeAt }: DeviceRecord, found: FoundDevices): boolean {
  return found.get(deviceId)?.transactionId === madeAt;
}
