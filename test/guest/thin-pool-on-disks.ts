/**
 * A thin pool on two disks that can fail, and the real backend on it, one after another as processes die and the
 * power goes. Models the content of the volumes that are written through it, as by a workload.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { closeSync, fsyncSync, mkdirSync, openSync } from 'node:fs';
import { join } from 'node:path';
import type { PoolEvent } from '../../src/driver/backends/backend.js';
import type { Ledger } from '../../src/driver/backends/thin/ledger/sqlite-ledger.js';
import { ThinBackend } from '../../src/driver/backends/thin/thin-backend.js';
import type { ThinPoolStatus } from '../../src/driver/native/dm-addon.js';
import { newSnapshot, newVolume } from '../backend/harness.js';
import type { BackendOptions } from '../support/backend-process.js';
import type { MetadataAnswer } from '../support/csi-client.js';
import { openLedgerHere, openLedgerInline } from '../support/direct-database.js';
import { DISK_PREFIX, DmFixture, type FaultyDisk } from '../support/dm-fixture.js';
import { eventually } from '../support/eventually.js';
import { blockDiscard, flushCache } from '../support/ioctls.js';
import { type NativeHere, nativeHere } from '../support/native-here.js';
import { atNight } from '../support/nightly.js';
import { assertSound, PAGE_BYTES, TaggedImage } from '../support/tagged-image.js';
import { scanAll } from '../support/wire.js';
import { Workspace } from '../support/workspace.js';
import { testWith } from './guest.js';

const MIB = 1n << 20n;
export const BLOCK_BYTES = 65_536;
export const PAGES_A_BLOCK = BLOCK_BYTES / PAGE_BYTES;

/** Durable when it resolves, of a volume whose content is modelled by somebody else. */
export const writeBlock = (content: TaggedImage, devicePath: string, block: number) =>
  content.writeDurably(devicePath, block * PAGES_A_BLOCK, PAGES_A_BLOCK);

/** A snapshot and what it holds, alive or not. */
export interface ThinSnapshot {
  id: string;
  volumeId: string;
  image: TaggedImage;
}

export class ThinVolume {
  #fd: number | null = null;

  constructor(
    private readonly pool: ThinPoolOnDisks,
    readonly id: string,
    public image: TaggedImage,
  ) {}

  async attach(): Promise<void> {
    if (this.#fd !== null) return;
    const { devicePath } = await this.pool.backend.attachments.attach(this.id, { readOnly: false });
    this.#fd = openSync(devicePath, 'r+');
  }

  async detach(): Promise<void> {
    this.close();
    await this.pool.backend.attachments.detach(this.id);
  }

  close(): void {
    if (this.#fd !== null) closeSync(this.#fd);
    this.#fd = null;
  }

  /** Written to the device and, unlike by a sync, not committed by the pool. */
  write(page: number, count: number): void {
    this.image.write(this.fd, page, count);
    flushCache(this.fd);
  }

  writeBlock(block: number): void {
    this.write(block * PAGES_A_BLOCK, PAGES_A_BLOCK);
  }

  /** Only whole data blocks are unmapped; what is in the others stays. */
  discard(page: number, count: number): void {
    blockDiscard(this.fd, page * PAGE_BYTES, count * PAGE_BYTES);
    const first = Math.ceil(page / PAGES_A_BLOCK) * PAGES_A_BLOCK;
    const last = Math.floor((page + count) / PAGES_A_BLOCK) * PAGES_A_BLOCK;
    if (last > first) this.image.tags.fill(0, first, last);
  }

  discardBlock(block: number): void {
    this.discard(block * PAGES_A_BLOCK, PAGES_A_BLOCK);
  }

  /** Committed when it returns. */
  sync(): void {
    fsyncSync(this.fd);
  }

  read(): TaggedImage {
    flushCache(this.fd);
    return TaggedImage.read(this.fd, this.image.sizeBytes);
  }

  get fd(): number {
    assert.ok(this.#fd !== null, 'the volume is attached');
    return this.#fd;
  }
}

export interface PoolOptions {
  metadataBytes?: bigint;
  dataBytes?: bigint;
  /** Data that is not kept, at no cost: for pools of which only the metadata matters. */
  dataIsZero?: boolean;
  /** For calls that run beside what the test does meanwhile. */
  native?: () => NativeHere;
  backend?: Partial<BackendOptions>;
}

/** For a backend: on files of its own, and not on the disks. */
export const EMBEDDED = { devices: null, embeddedPoolBytes: 1n << 30n };

export class ThinPoolOnDisks {
  readonly volumes = new Map<string, ThinVolume>();
  /** Events of the backends. */
  readonly events: string[] = [];
  /** What the last start removed. */
  swept: string[] = [];
  #backend: ThinBackend;

  private constructor(
    readonly workspace: Workspace,
    readonly native: NativeHere,
    readonly disks: DmFixture,
    readonly metadata: FaultyDisk,
    readonly data: FaultyDisk,
    private readonly changed: Partial<BackendOptions> = {},
  ) {
    this.#backend = this.makeBackend();
  }

  /** The pool is made and started. */
  static async make(options: PoolOptions = {}): Promise<ThinPoolOnDisks> {
    const workspace = new Workspace('thin');
    const native = (options.native ?? nativeHere)();
    const disks = new DmFixture(native, workspace);
    const { metadataBytes = 16n * MIB, dataBytes = 256n * MIB } = options;
    const metadata = await disks.disk('metadata', metadataBytes);
    const kind = options.dataIsZero === true ? 'zeroDisk' : 'disk';
    const data = await disks[kind]('data', dataBytes);
    mkdirSync(workspace.path('pool'));
    const pool = new ThinPoolOnDisks(workspace, native, disks, metadata, data, options.backend);
    await pool.backend.start();
    return pool;
  }

  get backend(): ThinBackend {
    return this.#backend;
  }

  get directory(): string {
    return this.workspace.path('pool');
  }

  /** Of the backend, but for its events. */
  get options(): BackendOptions {
    return {
      pool: 'default',
      directory: this.directory,
      owner: '0'.repeat(32),
      devices: { metadata: this.metadata.path, data: this.data.path },
      embeddedPoolBytes: null,
      dataBlockBytes: BigInt(BLOCK_BYTES),
      overcommitPercent: 1000n,
      reservePercent: 0n,
      passDiscards: true,
      errorWhenFull: true,
      lowWaterPercent: 25n,
      ...this.changed,
    };
  }

  /** A backend as of a new process, on the same pool, started. The one before has stopped. */
  async next(): Promise<ThinBackend> {
    this.#backend = this.makeBackend();
    this.swept = await this.#backend.start('existing');
    return this.#backend;
  }

  async restart(): Promise<void> {
    await this.#backend.stop();
    await this.next();
  }

  async status(): Promise<ThinPoolStatus> {
    const request = { name: await this.poolName(), commit: true };
    const { status } = await this.native.run('thinPoolStatus', request);
    assert.ok(status !== null, 'the pool is active');
    return status;
  }

  async poolName(): Promise<string> {
    const pools = (await this.deviceNames()).filter((name) => name.startsWith('blockdelta-pool-'));
    const [name] = pools;
    assert.ok(name !== undefined && pools.length === 1, 'one pool is active');
    return name;
  }

  async send(...messages: string[]): Promise<void> {
    await this.native.run('thinMessages', { pool: await this.poolName(), messages });
  }

  /** Of all device-mapper devices of the plugin. */
  async deviceNames(): Promise<string[]> {
    const { devices } = await this.native.run('dmList', { prefix: 'blockdelta-' });
    const names = devices.map(({ name }) => name).sort();
    return names.filter((name) => !name.startsWith(DISK_PREFIX));
  }

  /** All thin devices that the metadata on the disk knows. */
  async thinDevices() {
    const request = { metadata: this.metadata.path, superblock: 0n, deviceIds: null };
    return (await this.native.run('thinDevices', request)).devices;
  }

  async deviceCount(): Promise<number> {
    await this.status();
    return (await this.thinDevices()).length;
  }

  async suspendedDevices(): Promise<string[]> {
    const names = await this.deviceNames();
    const found = await Promise.all(names.map((name) => this.native.run('dmFind', { name })));
    return found.flatMap(({ device }) => (device?.suspended === true ? [device.name] : []));
  }

  /** Waits for an event like that. */
  async told(event: RegExp): Promise<void> {
    await eventually(`${event} is told`, () => event.test(this.events.join('\n')));
  }

  /** Of a pool that is not active. */
  assertSound(): void {
    execFileSync('thin_check', [this.metadata.path], { stdio: 'pipe' });
  }

  volume(sizeBytes = 4 << 20): Promise<ThinVolume> {
    return this.#add(TaggedImage.zeros(sizeBytes), (id, size) => this.backend.volumes.create(id, size));
  }

  /** An attached one, with its first blocks written. */
  async written(blocks: number, sizeBytes?: number): Promise<ThinVolume> {
    const volume = await this.volume(sizeBytes);
    await volume.attach();
    for (let block = 0; block < blocks; block += 1) volume.writeBlock(block);
    return volume;
  }

  restore({ id: of, image }: ThinSnapshot): Promise<ThinVolume> {
    return this.#add(image, (id, size) => this.backend.volumes.create(id, size, { snapshotId: of }));
  }

  clone({ id: of, image }: ThinVolume): Promise<ThinVolume> {
    return this.#add(image, (id, size) => this.backend.volumes.create(id, size, { volumeId: of }));
  }

  async remove(volume: ThinVolume): Promise<void> {
    await volume.detach();
    await this.backend.volumes.delete(volume.id);
    this.volumes.delete(volume.id);
  }

  async grow(volume: ThinVolume, sizeBytes: number): Promise<void> {
    await this.backend.volumes.expand(volume.id, BigInt(sizeBytes));
    volume.image = volume.image.copy(sizeBytes);
  }

  async take(...volumes: ThinVolume[]): Promise<ThinSnapshot[]> {
    const snapshots = volumes.map(({ id, image }) => ({ id: newSnapshot(), volumeId: id, image: image.copy() }));
    await this.backend.snapshots.create(snapshots.map(({ id: snapshotId, volumeId }) => ({ snapshotId, volumeId })));
    return snapshots;
  }

  async takeOne(volume: ThinVolume): Promise<ThinSnapshot> {
    const [snapshot] = await this.take(volume);
    assert.ok(snapshot !== undefined);
    return snapshot;
  }

  /**
   * As volumes/retained-bases.ts deletes a snapshot.
   *
   * @param next the next one of its volume; a list to it is retained then
   */
  async retainAndDelete({ id }: ThinSnapshot, next?: ThinSnapshot): Promise<void> {
    assert.notEqual(await this.backend.bases.retain(id, next?.id ?? null), null);
    await this.backend.snapshots.delete(id);
  }

  /** What the snapshot really holds: restored, and read. */
  async contentOf(of: ThinSnapshot): Promise<TaggedImage> {
    const copy = await this.restore(of);
    await copy.attach();
    const content = copy.read();
    await this.remove(copy);
    return content;
  }

  /** The list, which must miss nothing of what differs. */
  async soundDelta(base: ThinSnapshot, target: ThinSnapshot): Promise<MetadataAnswer> {
    const list = await scanAll(this.native, (await this.backend.changes.scan(target.id, base.id)).source);
    assertSound(base.image, target.image, list, `list from ${base.id} to ${target.id}`);
    return list;
  }

  /** Blocks that a list from the base to the target reports. */
  async reported(base: ThinSnapshot, target: ThinSnapshot): Promise<number[]> {
    const { ranges } = await this.soundDelta(base, target);
    return ranges.flatMap(({ offset, size }) => {
      const first = Number(offset) / BLOCK_BYTES;
      const length = Math.ceil(Number(size) / BLOCK_BYTES);
      return Array.from({ length }, (_, index) => first + index);
    });
  }

  /** Why the base is lost; empty: it is not. */
  async lossOf({ id }: ThinSnapshot): Promise<string> {
    const { invalidated } = this.backend.bases.all();
    return invalidated.find(({ snapshotId }) => snapshotId === id)?.reason ?? '';
  }

  /** Closes and detaches everything, as before an orderly shutdown. */
  async stop(): Promise<void> {
    for (const volume of this.volumes.values()) await volume.detach();
    await this.backend.stop();
  }

  async start(): Promise<void> {
    await this.next();
    for (const volume of this.volumes.values()) await volume.attach();
  }

  /**
   * The metadata that is not committed is lost at this moment, and the machine comes up again. Models
   * of volumes follow what their devices hold then. At least one volume is attached.
   *
   * @param lastWork what the workload does at last, so shortly before that the pool has not committed it
   */
  async powerCut(lastWork: () => void = () => undefined): Promise<void> {
    // The plugin stops first: how it handles failing disks is not under test here.
    await this.backend.stop();
    lastWork();
    await this.metadata.fail();
    for (const volume of this.volumes.values()) volume.close();
    await this.disks.powerCut();
    this.withLedger((ledger) => ledger.recordStart('the boot before', this.options.passDiscards));
    await this.start();
    for (const volume of this.volumes.values()) volume.image = volume.read();
  }

  /** While no backend has it, or only to read. */
  withLedger<T>(use: (ledger: Ledger) => T): T {
    const ledger = openLedgerHere(join(this.directory, 'pool.sqlite'));
    try {
      return use(ledger);
    } finally {
      ledger.close();
    }
  }

  async dispose(): Promise<void> {
    for (const volume of this.volumes.values()) volume.close();
    await this.#backend.stop().catch(() => undefined);
    await this.disks.dispose();
    this.workspace.dispose();
  }

  /** Another one on the same pool. */
  makeBackend(changed: Partial<BackendOptions> = {}): ThinBackend {
    const onEvent = ({ level, message }: PoolEvent) => this.events.push(`${level}: ${message}`);
    const options = { ...this.options, ...changed, onEvent };
    return new ThinBackend(this.native, options, openLedgerInline);
  }

  async #add(image: TaggedImage, make: (id: string, sizeBytes: bigint) => Promise<void>): Promise<ThinVolume> {
    const id = newVolume();
    await make(id, BigInt(image.sizeBytes));
    const volume = new ThinVolume(this, id, image.copy());
    this.volumes.set(id, volume);
    return volume;
  }
}

/** A test with a pool of its own. */
export function poolTest(
  title: string,
  run: (pool: ThinPoolOnDisks) => Promise<void>,
  options: PoolOptions = {},
): void {
  testWith(title, () => ThinPoolOnDisks.make(options), run);
}

export const nightlyPoolTest = atNight(poolTest);
