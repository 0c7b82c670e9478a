/** The parts of an open thin pool that its other parts use. */
import type { AsyncLedger } from './ledger/ledger-client.js';
import type { MetadataReader } from './metadata/metadata-reader.js';
import type { PoolTransactions } from './pool/pool-transaction.js';
import type { ThinPool } from './pool/thin-pool.js';
import type { VolumeDevices } from './volume-devices.js';

export interface PoolParts {
  ledger: AsyncLedger;
  pool: ThinPool;
  metadata: MetadataReader;
  transactions: PoolTransactions;
  devices: VolumeDevices;
}
