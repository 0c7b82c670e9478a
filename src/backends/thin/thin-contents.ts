/**
 * What a thin pool holds and may still promise, by its ledger, its metadata and the kernel's counts.
 */

import { CsiError } from '../../base/errors.js';
import type { PoolCapacity, PoolContents } from '../backend.js';
import { poolAccount, type SpacePolicy } from '../pool-account.js';
import type { DeviceRecord } from './ledger/ledger.js';
import type { AsyncLedger } from './ledger/ledger-client.js';
import type { FoundDevices, MetadataReader } from './metadata/metadata-reader.js';
import type { PoolDevices } from './pool/pool-devices.js';
import { trouble } from './pool/pool-health.js';
import type { ThinPool } from './pool/thin-pool.js';

const MINIMUM_VOLUME_BYTES = 1n << 20n;

interface OpenParts {
  ledger: AsyncLedger;
  pool: ThinPool;
  look: MetadataReader;
}

export async function thinCapacity(
  { ledger, pool, look }: OpenParts,
  devices: Pick<PoolDevices, 'freeBelow'>,
  policy: SpacePolicy,
): Promise<PoolCapacity> {
  const status = await pool.status();
  if (status.mode === 'fail' || status.mode === 'error') {
    throw CsiError.failedPrecondition(`pool '${pool.pool}' ${trouble(status)}`);
  }
  const { dataBlockBytes } = await ledger.pool();
  const volumes = (await ledger.devices()).filter(({ kind }) => kind === 'volume');
  const found = await look.unconfirmedDevices(volumes.map(({ deviceId }) => deviceId));
  const free = (status.totalDataBlocks - status.usedDataBlocks) * dataBlockBytes;
  const freeBelow = await devices.freeBelow(status.usedDataBlocks * dataBlockBytes);
  const space = {
    totalBytes: status.totalDataBlocks * dataBlockBytes,
    freeBytes: freeBelow === null || free < freeBelow ? free : freeBelow,
  };
  const minimumVolumeBytes =
    dataBlockBytes > MINIMUM_VOLUME_BYTES ? dataBlockBytes : MINIMUM_VOLUME_BYTES;
  const sizes = { minimumVolumeBytes, granularityBytes: dataBlockBytes };
  return poolAccount(space, promisedBytes(volumes, found, dataBlockBytes), sizes, policy);
}

/** Live objects that the metadata has; all other devices of the metadata are somebody else's. */
export async function thinContents({ ledger, look }: OpenParts): Promise<PoolContents> {
  const devices = await ledger.devices();
  const found = await look.all();
  // What is made meanwhile is not listed, and no stranger either.
  const made = (await ledger.openTransaction())?.creates ?? [];
  const ours = [...devices, ...(await ledger.devices()), ...made];
  const known = new Set(ours.filter((one) => isThere(one, found)).map(({ deviceId }) => deviceId));
  const objects = (kind: DeviceRecord['kind']) =>
    devices
      .filter((one) => one.kind === kind && one.state === 'live' && isThere(one, found))
      .map(({ objectId, sizeBytes }) => ({ id: objectId, sizeBytes }));
  return {
    volumes: objects('volume'),
    snapshots: objects('snapshot'),
    unknown: [...found.keys()].filter((id) => !known.has(id)).map((id) => `thin device ${id}`),
  };
}

/** A device of that id that was made in another transaction is another device. */
function isThere({ deviceId, madeAt }: DeviceRecord, found: FoundDevices): boolean {
  return found.get(deviceId)?.transactionId === madeAt;
}

/** What existing volumes may still claim: the parts of them that were never written. */
function promisedBytes(
  volumes: readonly DeviceRecord[],
  found: FoundDevices,
  dataBlockBytes: bigint,
): bigint {
  let promised = 0n;
  for (const { deviceId, sizeBytes } of volumes) {
    const mapped = (found.get(deviceId)?.mappedBlocks ?? 0n) * dataBlockBytes;
    if (mapped < sizeBytes) promised += sizeBytes - mapped;
  }
  return promised;
}
