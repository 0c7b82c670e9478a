/** Fixtures of the device-mapper tests: native calls, disks, and thin pools on them. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { open } from 'node:fs/promises';
import { SystemError } from '../../src/base/errors.js';
import type { DmDevice, ThinPoolStatus } from '../../src/native/dm-addon.js';
import type { NativePool } from '../../src/native/pool.js';
import { DmFixture, type FaultyDisk } from '../support/dm-fixture.js';
import { sharedThreads } from '../support/shared-threads.js';
import { mountsBelow, Workspace } from '../support/workspace.js';
import { guestTest } from './guest.js';

export const MIB = 1n << 20n;
export const BLOCK = 65536;
const BLOCK_SECTORS = BLOCK / 512;

export interface DmScene {
  native: NativePool;
  disks: DmFixture;
  workspace: Workspace;
  /** A device name of this test's own; the fixture removes what stands on its disks. */
  name(label: string): string;
  find(label: string): Promise<DmDevice | null>;
}

/** A test with a scene of its own, of which nothing is left. */
export function dmTest(title: string, run: (scene: DmScene) => Promise<void>): void {
  guestTest(title, async (context) => {
    const native = sharedThreads();
    const workspace = new Workspace('dm');
    const disks = new DmFixture(native, workspace);
    const own = randomBytes(4).toString('hex');
    const name = (label: string): string => `blockdelta-test-${own}-${label}`;
    try {
      const find = async (label: string) =>
        (await native.run('dmFind', { name: name(label) })).device;
      await run({ native, disks, workspace, name, find });
    } catch (thrown) {
      // Should clearing up fail because of it, this is what counts.
      context.diagnostic(String(thrown));
      throw thrown;
    } finally {
      for (const mountPoint of mountsBelow(workspace.directory).reverse()) {
        execFileSync('umount', [mountPoint]);
      }
      await disks.dispose();
      workspace.dispose();
    }
  });
}

export interface PoolOptions {
  metadata?: FaultyDisk;
  data?: FaultyDisk;
  lowWaterBlocks?: number;
  features?: readonly string[];
}

/** Of the device that the scene names so, or of none that is active. */
export type Member = readonly [label: string | null, originId: number, snapshotId: number];

/** A thin pool of blocks of 64 KiB; volumes are activated under names of the scene. */
export class TestPool {
  private constructor(
    private readonly scene: DmScene,
    readonly name: string,
    readonly metadata: FaultyDisk,
    readonly data: FaultyDisk,
  ) {}

  static async start(scene: DmScene, options: PoolOptions = {}): Promise<TestPool> {
    const metadata = options.metadata ?? (await scene.disks.disk('metadata', 16n * MIB));
    const data = options.data ?? (await scene.disks.disk('data', 64n * MIB));
    const pool = new TestPool(scene, scene.name('pool'), metadata, data);
    const features = options.features ?? ['error_if_no_space'];
    await scene.native.run('dmCreate', {
      name: pool.name,
      uuid: '',
      readOnly: false,
      sizeSectors: data.sizeBytes / 512n,
      type: 'thin-pool',
      table: pool.table(options.lowWaterBlocks ?? 0, features),
    });
    return pool;
  }

  table(lowWaterBlocks: number, features: readonly string[]): string {
    const parts = [this.metadata.path, this.data.path, BLOCK_SECTORS, lowWaterBlocks];
    return [...parts, features.length, ...features].join(' ');
  }

  async send(...messages: string[]): Promise<ThinPoolStatus> {
    return (await this.scene.native.run('thinMessages', { pool: this.name, messages })).status;
  }

  cut(...members: Member[]) {
    return this.scene.native.run('takeThinSnapshots', {
      pool: this.name,
      members: members.map(([label, originId, snapshotId]) => ({
        deviceName: label === null ? null : this.scene.name(label),
        ...{ originId, snapshotId },
      })),
    });
  }

  async status(commit = false): Promise<ThinPoolStatus> {
    const { status } = await this.scene.native.run('thinPoolStatus', { name: this.name, commit });
    assert.ok(status !== null, `there is no pool ${this.name}`);
    return status;
  }

  /** The thin device of that id, under the scene's name for the label. */
  async activate(
    label: string,
    deviceId: number,
    { sizeBytes = 16n * MIB, readOnly = false } = {},
  ): Promise<DmDevice> {
    const pool = await this.scene.find('pool');
    const { device } = await this.scene.native.run('dmCreate', {
      name: this.scene.name(label),
      uuid: '',
      readOnly,
      sizeSectors: sizeBytes / 512n,
      type: 'thin',
      table: `${pool?.path} ${deviceId}`,
    });
    return device;
  }

  /** A new one, activated. */
  async volume(label: string, deviceId: number, sizeBytes = 16n * MIB): Promise<DmDevice> {
    await this.send(`create_thin ${deviceId}`);
    return this.activate(label, deviceId, { sizeBytes });
  }
}

/** Fills blocks with a byte and sees them written. */
export async function writeBlocks(
  path: string,
  value: number,
  first: number,
  count = 1,
): Promise<void> {
  const device = await open(path, 'r+');
  try {
    for (let block = first; block < first + count; block += 1) {
      await device.write(Buffer.alloc(BLOCK, value), 0, BLOCK, block * BLOCK);
    }
    await device.sync();
  } finally {
    await device.close();
  }
}

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
