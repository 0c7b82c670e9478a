/**
 * The contents and the capacity of a thin pool, by its ledger, its metadata and the kernel's counters.
 */
import { CsiError } from '../../base/errors.js';
import type { PoolCapacity, PoolContents } from '../backend.js';
import { poolAccount, type SpacePolicy } from '../pool-account.js';
import type { DeviceRecord } from './ledger/ledger.js';
import type { AsyncLedger } from './ledger/ledger-client.js';
import type { FoundDevices, MetadataReader } from './metadata/metadata-reader.js';
import type { PoolDevices } from './pool/pool-devices.js';
import { whyUnwritable } from './pool/pool-health.js';
import type { ThinPool } from './pool/thin-pool.js';

const MINIMUM_VOLUME_BYTES = 1n << 20n;
/** THIN_METADATA_BLOCK_SIZE of the kernel. */
const METADATA_BLOCK_BYTES = 4096n;

interface OpenParts {
  ledger: AsyncLedger;
  pool: ThinPool;
  metadata: MetadataReader;
}

export async function thinCapacity(
  { ledger, pool, metadata }: OpenParts,
  devices: Pick<PoolDevices, 'freeBelow'>,
  policy: SpacePolicy,
): Promise<PoolCapacity> {
  const status = await pool.status();
  if (status.mode === 'fail' || status.mode === 'error') {
    throw CsiError.failedPrecondition(`pool '${pool.pool}' ${whyUnwritable(status)}`);
  }
  const { dataBlockBytes } = await ledger.pool();
  const volumes = (await ledger.devices()).filter(({ kind }) => kind === 'volume');
  const found = await metadata.unconfirmedDevices(volumes.map(({ deviceId }) => deviceId));
  const free = (status.totalDataBlocks - status.usedDataBlocks) * dataBlockBytes;
  const freeBelow = await devices.freeBelow(status.usedDataBlocks * dataBlockBytes);
  const space = {
    totalBytes: status.totalDataBlocks * dataBlockBytes,
    freeBytes: freeBelow === null || free < freeBelow ? free : freeBelow,
  };
  const minimumVolumeBytes =
    dataBlockBytes > MINIMUM_VOLUME_BYTES ? dataBlockBytes : MINIMUM_VOLUME_BYTES;
  const sizes = { minimumVolumeBytes, granularityBytes: dataBlockBytes };
  return {
    ...poolAccount(space, committedBytes(volumes, found, dataBlockBytes), sizes, policy),
    metadata: {
      totalBytes: status.totalMetadataBlocks * METADATA_BLOCK_BYTES,
      usedBytes: status.usedMetadataBlocks * METADATA_BLOCK_BYTES,
    },
  };
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

/** What volumes may still claim: the parts of them that were never written. */
function committedBytes(
  volumes: readonly DeviceRecord[],
  found: FoundDevices,
  dataBlockBytes: bigint,
): bigint {
  let committed = 0n;
  for (const { deviceId, sizeBytes } of volumes) {
    const mapped = (found.get(deviceId)?.mappedBlocks ?? 0n) * dataBlockBytes;
    if (mapped < sizeBytes) committed += sizeBytes - mapped;
  }
  return committed;
}
