/**
 * The kernel's side of a thin pool, in memory, behind the addon's calls: messages and tables with ids,
 * transactions and devices, without content. For tests of the order of steps; simulated-thin-pool.ts runs
 * the backend's rooms on it.
 */

import { SystemError } from '../../src/base/errors.js';
import type { PoolRecord } from '../../src/driver/backends/thin/ledger/ledger.js';
import type { DmDevice, NewThinSnapshot, ThinPoolMode, ThinPoolStatus } from '../../src/driver/native/dm-addon.js';
import type { NativeRunner } from '../../src/driver/native/pool.js';
import type { ThinDeviceDetails, ThinSuperblock } from '../../src/driver/native/thin-addon.js';

interface TableRequest {
  name: string;
  uuid: string;
  readOnly: boolean;
  sizeSectors: bigint;
  type: string;
  table: string;
}

const HELD_ROOT = 77n;

export const SUPERBLOCK: ThinSuperblock = {
  checksum: 1,
  needsCheck: false,
  time: 7,
  transactionId: 9n,
  heldRoot: null,
  mappingRoot: 100n,
  detailsRoot: 101n,
  dataBlockBytes: 65536n,
  dataBlocks: 1000n,
  metadataBlocks: 4096n,
};

/** Of a pool with that superblock. */
export const POOL_RECORD: PoolRecord = {
  uuid: 'uuid',
  state: 'ready',
  dataBlockBytes: 65536n,
  transactionId: 9n,
  labelledBytes: 1n << 30n,
  holdsMetadataSnapshot: false,
  bootId: 'boot-1',
  passesDiscards: true,
  stopped: null,
};

export class FakeThinKernel implements NativeRunner {
  mode: ThinPoolMode = 'rw';
  whenFull: ThinPoolStatus['whenFull'] = 'error_if_no_space';
  needsCheck = false;
  /** The metadata device holds a pool; activating one formats it. */
  formatted = true;
  transactionId = 0n;
  time = 0;
  /** Of the superblock; a test changes it for a commit that nothing else shows. */
  checksum = 1;
  heldRoot: bigint | null = null;
  usedMetadataBlocks = 10n;
  /** Size of the metadata device; a pool adopts it when its table is loaded. */
  metadataBlocks = 4096n;
  #totalMetadataBlocks: bigint | null = null;
  readonly thin = new Map<number, ThinDeviceDetails>();
  readonly active = new Map<string, DmDevice>();
  /** All messages that reached the pool. */
  readonly messages: string[] = [];
  /** Called before each call with its name; may throw instead of it. */
  before: (method: string) => void = () => undefined;
  /** Called after each call with its name; may throw, as if the answer were lost. */
  after: (method: string) => void = () => undefined;

  run: NativeRunner['run'] = async (method, request) => {
    this.before(method);
    const answer = this.answer(method, request);
    this.after(method);
    return { ok: true, ...answer } as never;
  };

  addActive(name: string, uuid: string, type: string, table: string): void {
    this.#create({ name, uuid, type, table, readOnly: false, sizeSectors: 2048n });
  }

  protected answer(method: string, request: unknown): object {
    const { name = '' } = request as { name?: string };
    switch (method) {
      case 'dmFind':
        return { device: this.active.get(name) ?? null };
      case 'dmList':
        return { devices: [...this.active.values()].map(({ uuid, ...one }) => ({ ...one, uuid })) };
      case 'dmCreate':
        return { device: this.#create(request as TableRequest) };
      case 'dmReload':
        return this.#reload(request as TableRequest);
      case 'dmResume':
        return this.#resume(name);
      case 'dmRemove':
        return { removed: this.active.delete(name) };
      case 'thinPoolStatus':
        return { status: this.#status() };
      case 'thinMessages':
        return this.#sendMessages((request as { messages: string[] }).messages);
      case 'punchDevice':
        return {};
      case 'takeThinSnapshots':
        return this.#takeSnapshots((request as { members: NewThinSnapshot[] }).members);
      case 'thinSuperblock':
        return { superblock: this.#superblock() };
      case 'thinDevices':
        return this.#devices((request as { deviceIds: number[] | null }).deviceIds);
      default:
        throw new Error(`the simulated kernel has no ${method}`);
    }
  }

  #create({ name, uuid, type, table, readOnly, sizeSectors }: TableRequest): DmDevice {
    const id = Number(table.split(' ')[1]);
    if (type === 'thin-pool') {
      this.formatted = true;
      this.#totalMetadataBlocks = this.metadataBlocks;
    }
    if (type === 'thin' && !this.thin.has(id)) throw failure('ENODATA', 'dmCreate', name);
    const device: DmDevice = {
      name,
      uuid,
      path: `/dev/${name}`,
      major: 253,
      minor: this.active.size,
      sizeBytes: sizeSectors * 512n,
      readOnly,
      suspended: false,
      hasInactiveTable: false,
      isBeingRemoved: false,
      openCount: 0,
      targets: [{ type, table, startSectors: 0n, lengthSectors: sizeSectors }],
    };
    this.active.set(name, device);
    return device;
  }

  #reload({ name, type, table, sizeSectors }: TableRequest): object {
    const found = this.active.get(name);
    if (found === undefined) throw failure('ENXIO', 'dmReload', name);
    const targets = [{ type, table, startSectors: 0n, lengthSectors: sizeSectors }];
    const device = { ...found, sizeBytes: sizeSectors * 512n, targets };
    this.active.set(name, device);
    this.#totalMetadataBlocks = this.metadataBlocks;
    return { device };
  }

  #resume(name: string): object {
    const found = this.active.get(name);
    if (found === undefined) throw failure('ENXIO', 'dmResume', name);
    this.active.set(name, { ...found, suspended: false });
    return { resumed: found.suspended };
  }

  #sendMessages(messages: readonly string[]): { status: ThinPoolStatus } {
    for (const message of messages) {
      const isKept = this.mode === 'rw' || this.mode === 'out_of_data_space';
      if (!isKept || this.needsCheck) throw failure('THIN_POOL_MODE', 'message', message);
      this.messages.push(message);
      this.#perform(message.split(' '), message);
    }
    return { status: this.#status() };
  }

  #perform([word, first, second]: string[], message: string): void {
    const refuse = (code: string) => failure(code, 'message', message);
    const id = Number(first);
    if (word === 'create_thin') this.#make(id, refuse);
    else if (word === 'create_snap') this.#fork(id, Number(second), refuse);
    else if (word === 'delete') this.#delete(id, refuse);
    else if (word === 'set_transaction_id') {
      if (BigInt(first ?? '') !== this.transactionId) throw refuse('EINVAL');
      this.transactionId = BigInt(second ?? '');
    } else if (word === 'reserve_metadata_snap') {
      if (this.heldRoot !== null) throw refuse('EBUSY');
      this.heldRoot = HELD_ROOT;
    } else if (word === 'release_metadata_snap') {
      if (this.heldRoot === null) throw refuse('EINVAL');
      this.heldRoot = null;
    } else throw refuse('EINVAL');
  }

  #make(deviceId: number, refuse: (code: string) => SystemError, root = BigInt(1000 + deviceId)): void {
    if (this.thin.has(deviceId)) throw refuse('EEXIST');
    this.thin.set(deviceId, {
      deviceId,
      root,
      mappedBlocks: 0n,
      transactionId: this.transactionId,
      creationTime: this.time,
      snapshottedTime: this.time,
    });
  }

  #fork(deviceId: number, origin: number, refuse: (code: string) => SystemError): void {
    const forked = this.thin.get(origin);
    if (forked === undefined) throw refuse('ENODATA');
    if (this.thin.has(deviceId)) throw refuse('EEXIST');
    this.time += 1;
    this.#make(deviceId, refuse, forked.root);
  }

  #delete(deviceId: number, refuse: (code: string) => SystemError): void {
    const isActive = [...this.active.values()].some(({ targets }) =>
      targets.some(({ type, table }) => type === 'thin' && table.endsWith(` ${deviceId}`)),
    );
    if (isActive) throw refuse('EBUSY');
    if (!this.thin.delete(deviceId)) throw refuse('ENODATA');
  }

  #takeSnapshots(members: readonly NewThinSnapshot[]): object {
    if (this.mode !== 'rw') throw failure('THIN_POOL_MODE', 'cut', this.mode);
    const made: number[] = [];
    try {
      for (const { snapshotId, originId } of members) {
        this.#sendMessages([`create_snap ${snapshotId} ${originId}`]);
        made.push(snapshotId);
      }
    } catch (thrown) {
      for (const id of made) this.thin.delete(id);
      throw thrown;
    }
    return { takenAtNs: BigInt(this.time), suspendedNs: 0n, status: this.#status() };
  }

  #devices(deviceIds: readonly number[] | null): object {
    const all = [...this.thin.values()];
    return {
      devices: deviceIds === null ? all : all.filter(({ deviceId }) => deviceIds.includes(deviceId)),
      truncated: false,
    };
  }

  #superblock(): ThinSuperblock {
    if (!this.formatted) throw failure('THIN_METADATA_INVALID', 'thinSuperblock', 'metadata');
    const { checksum, needsCheck, time, transactionId, heldRoot } = this;
    return { ...SUPERBLOCK, checksum, needsCheck, time, transactionId, heldRoot };
  }

  #status(): ThinPoolStatus {
    const { mode, whenFull, needsCheck, transactionId, heldRoot, usedMetadataBlocks } = this;
    const totalMetadataBlocks = this.#totalMetadataBlocks ?? this.metadataBlocks;
    return {
      mode,
      needsCheck,
      transactionId,
      heldRoot,
      usedDataBlocks: 0n,
      totalDataBlocks: 1000n,
      usedMetadataBlocks,
      totalMetadataBlocks,
      metadataLowWaterBlocks: 1024n,
      discards: 'discard_passdown',
      whenFull,
    };
  }
}

export function failure(code: string, syscall: string, path: string): SystemError {
  return new SystemError(code, syscall, path, `${syscall} ${path}: ${code}`);
}
