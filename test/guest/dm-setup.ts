/** Tests of device-mapper devices, each with disks of its own, and of thin pools on them. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { open } from 'node:fs/promises';
import { SystemError } from '../../src/base/errors.js';
import { DEFAULT_FREEZING, freezeRequest } from '../../src/driver/backends/freezing.js';
import type { DmDevice, ThinPoolStatus } from '../../src/driver/native/dm-addon.js';
import { writeDurably } from '../support/contents.js';
import { DmFixture, type FaultyDisk } from '../support/dm-fixture.js';
import { atNight } from '../support/nightly.js';
import { sharedThreads } from '../support/shared-threads.js';
import { mountsBelow, Workspace } from '../support/workspace.js';
import { testWith } from './guest.js';

export const MIB = 1n << 20n;
export const BLOCK = 65536;
const BLOCK_SECTORS = BLOCK / 512;

/** Device-mapper devices of one test, and the disks below them. */
export class DmScene {
  readonly native = sharedThreads();
  readonly workspace = new Workspace('dm');
  readonly disks = new DmFixture(this.native, this.workspace);
  readonly #own = randomBytes(4).toString('hex');

  /** A device name of this test's own; the fixture removes what stands on its disks. */
  readonly name = (label: string): string => `blockdelta-test-${this.#own}-${label}`;

  async create(label: string, { readOnly = false, uuid = '', ...target }: Target) {
    const request = { name: this.name(label), uuid, readOnly, ...target };
    return (await this.native.run('dmCreate', request)).device;
  }

  readonly find = async (label: string): Promise<DmDevice | null> =>
    (await this.native.run('dmFind', { name: this.name(label) })).device;

  async remove(label: string): Promise<boolean> {
    const request = { name: this.name(label), deferred: false };
    return (await this.native.run('dmRemove', request)).removed;
  }

  async dispose(): Promise<void> {
    for (const mountPoint of mountsBelow(this.workspace.directory).reverse()) {
      execFileSync('umount', [mountPoint]);
    }
    await this.disks.dispose();
    this.workspace.dispose();
  }
}

interface Target {
  type: string;
  table: string;
  sizeSectors: bigint;
  readOnly?: boolean;
  uuid?: string;
}

export function dmTest(title: string, run: (scene: DmScene) => Promise<void>): void {
  testWith(title, () => new DmScene(), run);
}

/** Of the device that the scene names so, or of none that is active. */
export type Member = readonly [label: string | null, originId: number, snapshotId: number];

/** A scene with a thin pool of blocks of 64 KiB; its device is the one named `pool`. */
export class TestPool extends DmScene {
  metadata!: FaultyDisk;
  data!: FaultyDisk;
  table = '';

  async start({ dataBytes = 64n * MIB }: PoolOptions): Promise<void> {
    this.metadata = await this.disks.disk('metadata', 16n * MIB);
    this.data = await this.disks.disk('data', dataBytes);
    const words = [this.metadata.path, this.data.path, BLOCK_SECTORS, 0, 1, 'error_if_no_space'];
    this.table = words.join(' ');
    const target = { type: 'thin-pool', table: this.table, sizeSectors: dataBytes / 512n };
    await this.create('pool', target);
  }

  async send(...messages: string[]): Promise<ThinPoolStatus> {
    const request = { pool: this.name('pool'), messages };
    return (await this.native.run('thinMessages', request)).status;
  }

  take(...members: Member[]) {
    return this.native.run('takeThinSnapshots', {
      pool: this.name('pool'),
      ...freezeRequest(DEFAULT_FREEZING, Number.POSITIVE_INFINITY),
      members: members.map(([label, originId, snapshotId]) => ({
        deviceName: label === null ? null : this.name(label),
        originId,
        snapshotId,
      })),
    });
  }

  async status(commit = false): Promise<ThinPoolStatus> {
    const request = { name: this.name('pool'), commit };
    const { status } = await this.native.run('thinPoolStatus', request);
    assert.ok(status !== null, 'there is no pool');
    return status;
  }

  /** The thin device of that id, under the scene's name for the label. */
  async activate(label: string, deviceId: number, { sizeBytes = 16n * MIB, readOnly = false } = {}): Promise<DmDevice> {
    const table = `${(await this.find('pool'))?.path} ${deviceId}`;
    return this.create(label, { type: 'thin', table, sizeSectors: sizeBytes / 512n, readOnly });
  }

  /** A new one, activated. */
  async volume(label: string, deviceId: number, sizeBytes = 16n * MIB): Promise<DmDevice> {
    await this.send(`create_thin ${deviceId}`);
    return this.activate(label, deviceId, { sizeBytes });
  }
}

export interface PoolOptions {
  dataBytes?: bigint;
}

export function poolTest(title: string, run: (pool: TestPool) => Promise<void>, options: PoolOptions = {}): void {
  const start = async (pool: TestPool): Promise<void> => {
    await pool.start(options);
    await run(pool);
  };
  testWith(title, () => new TestPool(), start);
}

export const nightlyPoolTest = atNight(poolTest);

/** Fills blocks with a byte and sees them written. */
export const writeBlocks = (path: string, value: number, first: number, count = 1): Promise<void> =>
  writeDurably(path, 'r+', (device) =>
    device.write(Buffer.alloc(count * BLOCK, value), 0, count * BLOCK, first * BLOCK),
  );

/** The byte that a block is filled with. */
export async function readBlock(path: string, block: number): Promise<number> {
  const device = await open(path, 'r');
  try {
    const { buffer } = await device.read(Buffer.alloc(BLOCK), 0, BLOCK, block * BLOCK);
    assert.ok(buffer.equals(Buffer.alloc(BLOCK, buffer[0])), `block ${block} has several bytes`);
    return buffer[0] ?? 0;
  } finally {
    await device.close();
  }
}

export async function fails(call: Promise<unknown>, ...codes: string[]): Promise<SystemError> {
  const outcome = await call.then(
    () => null,
    (thrown: unknown) => thrown,
  );
  assert.ok(outcome instanceof SystemError, `not ${codes}, but ${String(outcome)}`);
  assert.ok(codes.includes(outcome.code), `not ${codes}, but ${outcome.code}: ${outcome.message}`);
  return outcome;
}
