/**
 * Opens a pool: formats a new one, activates a known one, and takes over one that stayed active while the
 * plugin restarted. Refuses a pool that is not the one its ledger describes.
 */
import { readFile } from 'node:fs/promises';
import { CsiError, errorCode } from '../../../../base/errors.js';
import { sizeOfDeviceAt } from '../../../../base/system/device-attributes.js';
import type { NativeRunner } from '../../../native/pool.js';
import type { ThinSuperblock } from '../../../native/thin-addon.js';
import type { OpenTransaction, PoolRecord } from '../ledger/ledger.js';
import type { AsyncLedger } from '../ledger/ledger-client.js';
import { assertFormattable, readKnownSuperblock } from '../metadata/metadata-format.js';
import { assertFits, assertSameDevices } from '../metadata/metadata-match.js';
import { CURRENT } from '../metadata/metadata-reader.js';
import { assertLabel, labelOffset, writeLabel } from './device-label.js';
import type { OpenDevices, PoolDevices } from './pool-devices.js';
import { desiredTable } from './pool-growth.js';
import { historyOfActive, historyOfInactive, isKnownTransaction, type PoolHistory } from './pool-history.js';
import { isSamePool, type PoolFeatures, type PoolTable, passesDown, SECTOR_BYTES } from './pool-table.js';
import { unknownTransaction } from './pool-transaction.js';
import type { ThinPool } from './thin-pool.js';

export interface OpeningDependencies {
  native: NativeRunner;
  ledger: AsyncLedger;
  pool: ThinPool;
  devices: PoolDevices;
  features: PoolFeatures;
}

/** A pool that is ready to be activated. Its history must be judged first. */
export interface PreparedPool {
  opened: OpenDevices;
  dataBlockBytes: bigint;
  history: PoolHistory;
  /** Discards may reach the data device from now on, at least until the table is replaced. */
  passesDiscards: boolean;
  /** Does nothing if the pool is active. */
  activate(): Promise<void>;
}

export class PoolOpening {
  constructor(private readonly deps: OpeningDependencies) {}

  /** FAILED_PRECONDITION if the pool is not the one that the ledger describes. */
  async prepare(): Promise<PreparedPool> {
    const { ledger, devices, features, pool } = this.deps;
    const record = await ledger.pool();
    if (record.state !== 'ready') await devices.create();
    const opened = await devices.open();
    const { dataBlockBytes } = record;
    const active = (await this.deps.pool.find())?.targets[0]?.table ?? null;
    const passesDiscards = features.passDiscards || (active !== null && passesDown(active));
    const prepared = { opened, dataBlockBytes, passesDiscards };
    if (active !== null) {
      const history = await this.#takeOver(record, active, opened);
      return { ...prepared, history, activate: async () => undefined };
    }
    if (record.state === 'ready') {
      const wanted = await this.#desiredTable(record, opened);
      const history = await this.#reopen(record, opened, wanted);
      return { ...prepared, history, activate: () => pool.activate(wanted) };
    }
    const history = { distrust: null, interrupted: [] };
    return { ...prepared, history, activate: () => this.#format(record, opened) };
  }

  /** The table of a pool whose data device has its label; FAILED_PRECONDITION if it was never labelled. */
  async #desiredTable(record: PoolRecord, opened: OpenDevices): Promise<PoolTable> {
    const { pool, features } = this.deps;
    const { labelledBytes, dataBlockBytes } = record;
    if (labelledBytes !== null) {
      return desiredTable(opened, labelOffset(labelledBytes), dataBlockBytes, features);
    }
    throw CsiError.failedPrecondition(
      `pool '${pool.pool}' exists, but according to its ledger its devices were never labelled: ` +
        'was pool.sqlite replaced? Restore the one that belongs to the pool',
    );
  }

  async #takeOver(record: PoolRecord, active: string, opened: OpenDevices): Promise<PoolHistory> {
    const { ledger, pool } = this.deps;
    const wanted = await this.#desiredTable(record, opened);
    if (!isSamePool(active, wanted.table)) {
      throw CsiError.failedPrecondition(
        `pool '${pool.pool}' is active with the table '${active}', but the devices in BLOCKDELTA_POOLS need ` +
          `'${wanted.table}': were its devices renamed or replaced? Unstage its volumes and remove ` +
          `${pool.names.pool}`,
      );
    }
    const status = await pool.status();
    const findings = { pool: record, bootId: await bootId() };
    if (status.mode === 'fail' || status.mode === 'error') return historyOfActive(findings, true);
    await this.#assertKnown(status.transactionId, record, await ledger.openTransaction());
    if (record.state !== 'ready') await ledger.setPoolState('ready');
    return historyOfActive(findings, status.needsCheck);
  }

  async #reopen(record: PoolRecord, opened: OpenDevices, wanted: PoolTable): Promise<PoolHistory> {
    const { ledger, pool } = this.deps;
    await this.#assertDataDevice(record, opened);
    const superblock = await readKnownSuperblock(pool.pool, opened.metadataPath, () => this.#superblock(opened));
    const transaction = await ledger.openTransaction();
    await this.#assertKnown(superblock.transactionId, record, transaction);
    assertFits(pool.pool, record, superblock, wanted.sizeSectors * SECTOR_BYTES);
    const devices = await ledger.devices();
    await this.#assertMetadataDevice({ devices, transaction }, opened);
    const findings = { pool: record, transaction, devices, bootId: await bootId() };
    return historyOfInactive(findings, superblock);
  }

  /** The ledger records the label's offset before the label is written, and the label is written before the pool exists. */
  async #format(record: PoolRecord, devices: OpenDevices): Promise<void> {
    const { ledger, pool, features } = this.deps;
    const { uuid: poolUuid, dataBlockBytes } = record;
    const findings = {
      pool: pool.pool,
      record,
      devices,
      areOurs: this.deps.devices.areOurs,
      readSuperblock: () => this.#superblock(devices),
      hasThinDevices: async () => (await this.#thinDevices(devices)).devices.length > 0,
      sizeOf: sizeOfDeviceAt,
    };
    if ((await assertFormattable(findings)) === 'empty') {
      const deviceBytes = await sizeOfDeviceAt(devices.dataPath);
      await ledger.setLabelledBytes(deviceBytes);
      await ledger.setPoolState('formatting');
      await writeLabel(devices.dataPath, { poolUuid, deviceBytes });
    }
    const { labelledBytes } = await ledger.pool();
    const dataBytes = labelOffset(labelledBytes ?? 0n);
    await pool.activate(await desiredTable(devices, dataBytes, dataBlockBytes, features));
    const { transactionId, mode } = await pool.status({ commit: true });
    if (transactionId !== 0n || mode !== 'rw') {
      throw CsiError.failedPrecondition(
        `pool '${pool.pool}' was formatted but is in mode ${mode} with transaction id ${transactionId}; ` +
          'check the kernel log',
      );
    }
    await ledger.setPoolState('ready');
  }

  /** FAILED_PRECONDITION if the path of the data device leads to another disk. */
  async #assertDataDevice(record: PoolRecord, { dataPath }: OpenDevices): Promise<void> {
    const { uuid: poolUuid, labelledBytes: deviceBytes } = record;
    if (deviceBytes !== null) {
      await assertLabel(this.deps.pool.pool, dataPath, { poolUuid, deviceBytes });
    }
  }

  /** FAILED_PRECONDITION if the metadata is not the pool's. Ignores damaged metadata: damage is for the kernel to judge. */
  async #assertMetadataDevice(known: Parameters<typeof assertSameDevices>[1], opened: OpenDevices): Promise<void> {
    try {
      const { devices, truncated } = await this.#thinDevices(opened);
      if (!truncated) assertSameDevices(this.deps.pool.pool, known, devices);
    } catch (thrown) {
      if (errorCode(thrown) !== 'THIN_METADATA_INVALID') throw thrown;
    }
  }

  /** An unknown transaction id also invalidates all bookmarks. */
  async #assertKnown(found: bigint, record: PoolRecord, transaction: OpenTransaction | null): Promise<void> {
    const { ledger, pool } = this.deps;
    if (isKnownTransaction(found, { pool: record, transaction })) return;
    await ledger.invalidateAllBookmarks("the pool's metadata was not the one that the last run left");
    throw unknownTransaction(pool.pool, found, record.transactionId);
  }

  async #thinDevices({ metadataPath: metadata }: OpenDevices) {
    const request = { metadata, superblock: CURRENT, deviceIds: null };
    return this.deps.native.run('thinDevices', request);
  }

  async #superblock({ metadataPath }: OpenDevices): Promise<ThinSuperblock> {
    const request = { metadata: metadataPath, superblock: CURRENT };
    return (await this.deps.native.run('thinSuperblock', request)).superblock;
  }
}

export async function bootId(): Promise<string> {
  return (await readFile('/proc/sys/kernel/random/boot_id', 'utf8')).trim();
}
