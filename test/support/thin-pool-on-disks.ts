/**
 * A thin pool on two disks that can fail, with restarts of the plugin and power cuts, for tests of sound
 * lists: it models the content of every volume, written through its device as by a workload.
 */
import assert from 'node:assert/strict';
import { closeSync, fsyncSync, openSync } from 'node:fs';
import { ThinBackend } from '../../src/backends/thin/thin-backend.js';
import { newSnapshotId, newVolumeId } from '../../src/domain/identifiers.js';
import type { MetadataAnswer } from './csi-client.js';
import { openLedgerHere, openLedgerInline } from './direct-database.js';
import { DmFixture, type FaultyDisk } from './dm-fixture.js';
import { blockDiscard, flushCache } from './ioctls.js';
import { type NativeHere, nativeHere } from './native-here.js';
import { TEST_NODE_KEY } from './records.js';
import { missedPages, PAGE_BYTES, TaggedImage } from './tagged-image.js';
import { scanAll } from './wire.js';
import { Workspace } from './workspace.js';

const MIB = 1n << 20n;
export const DATA_BLOCK_BYTES = 65_536;
export const PAGES_A_BLOCK = DATA_BLOCK_BYTES / PAGE_BYTES;

export interface WorldOptions {
  passDiscards: boolean;
  dataBytes?: bigint;
}

/** A snapshot and what it holds, alive or not. */
export interface WorldSnapshot {
  id: string;
  volumeId: string;
  image: TaggedImage;
}

export class WorldVolume {
  #fd: number | null = null;

  constructor(
    private readonly world: ThinPoolOnDisks,
    readonly id: string,
    public image: TaggedImage,
  ) {}

  async attach(): Promise<void> {
    if (this.#fd !== null) return;
    const { devicePath } = await this.world.backend.attach(this.id, { readOnly: false });
    this.#fd = openSync(devicePath, 'r+');
  }

  async detach(): Promise<void> {
    this.close();
    await this.world.backend.detach(this.id);
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

export class ThinPoolOnDisks {
  backend: ThinBackend;
  readonly volumes = new Map<string, WorldVolume>();

  private constructor(
    readonly native: NativeHere,
    readonly workspace: Workspace,
    readonly fixture: DmFixture,
    readonly metadata: FaultyDisk,
    readonly data: FaultyDisk,
    readonly options: WorldOptions,
  ) {
    this.backend = this.#make();
  }

  /** Runs a test on a new pool, which is removed afterwards. */
  static async run(
    options: WorldOptions,
    story: (world: ThinPoolOnDisks) => Promise<void>,
  ): Promise<void> {
    const workspace = new Workspace('thin-bases');
    const native = nativeHere();
    const fixture = new DmFixture(native, workspace);
    try {
      const metadata = await fixture.disk('metadata', 16n * MIB);
      const data = await fixture.disk('data', options.dataBytes ?? 256n * MIB);
      const disks = [fixture, metadata, data] as const;
      const world = new ThinPoolOnDisks(native, workspace, ...disks, options);
      await world.backend.start();
      try {
        await story(world);
      } catch (thrown) {
        // What fails behind this, because of it, would be all that is seen.
        console.log(thrown);
        throw thrown;
      } finally {
        await world.#letGo();
      }
    } finally {
      await fixture.dispose();
      workspace.dispose();
    }
  }

  get directory(): string {
    return this.workspace.path('pool');
  }

  async volume(sizeBytes = 4 << 20): Promise<WorldVolume> {
    const id = newVolumeId(TEST_NODE_KEY);
    await this.backend.createVolume(id, BigInt(sizeBytes));
    return this.#add(id, TaggedImage.zeros(sizeBytes));
  }

  async restore(of: WorldSnapshot): Promise<WorldVolume> {
    const id = newVolumeId(TEST_NODE_KEY);
    await this.backend.restoreVolume(id, of.id, BigInt(of.image.sizeBytes));
    return this.#add(id, of.image.copy());
  }

  async clone(of: WorldVolume): Promise<WorldVolume> {
    const id = newVolumeId(TEST_NODE_KEY);
    await this.backend.cloneVolume(id, of.id, BigInt(of.image.sizeBytes));
    return this.#add(id, of.image.copy());
  }

  async remove(volume: WorldVolume): Promise<void> {
    await volume.detach();
    await this.backend.deleteVolume(volume.id);
    this.volumes.delete(volume.id);
  }

  async grow(volume: WorldVolume, sizeBytes: number): Promise<void> {
    await this.backend.expandVolume(volume.id, BigInt(sizeBytes));
    volume.image = volume.image.copy(sizeBytes);
  }

  async cut(...volumes: WorldVolume[]): Promise<WorldSnapshot[]> {
    const snapshots = volumes.map(({ id, image }) => ({
      id: newSnapshotId(TEST_NODE_KEY),
      volumeId: id,
      image: image.copy(),
    }));
    await this.backend.createSnapshots(
      snapshots.map(({ id: snapshotId, volumeId }) => ({ snapshotId, volumeId })),
    );
    return snapshots;
  }

  async cutOne(volume: WorldVolume): Promise<WorldSnapshot> {
    const [cut] = await this.cut(volume);
    assert.ok(cut !== undefined);
    return cut;
  }

  /**
   * As volumes/retained-bases.ts deletes a snapshot.
   *
   * @param next the next one of its volume; a list to it is retained then
   */
  async keepAndDelete({ id }: WorldSnapshot, next?: WorldSnapshot): Promise<void> {
    assert.notEqual(await this.backend.retainBase(id, next?.id ?? null), null);
    await this.backend.deleteSnapshot(id);
  }

  /** What the snapshot really holds: restored, and read. */
  async contentOf(of: WorldSnapshot): Promise<TaggedImage> {
    const copy = await this.restore(of);
    await copy.attach();
    const content = copy.read();
    await this.remove(copy);
    return content;
  }

  /** The list, which must miss nothing of what differs. */
  async soundDelta(base: WorldSnapshot, target: WorldSnapshot): Promise<MetadataAnswer> {
    const list = await scanAll(this.native, await this.backend.scanSource(target.id, base.id));
    const missed = missedPages(target.image.changedSince(base.image), list.ranges);
    assert.deepEqual(missed, [], `pages missed from ${base.id} to ${target.id}`);
    return list;
  }

  /** Why the base is lost; null: it is not. */
  async lossOf({ id }: WorldSnapshot): Promise<string | null> {
    const { invalidated } = await this.backend.retainedBases();
    return invalidated.find(({ snapshotId }) => snapshotId === id)?.reason ?? null;
  }

  /** The plugin alone is restarted: what is attached stays so. */
  async restartPlugin(): Promise<void> {
    await this.backend.stop();
    await this.startPlugin();
  }

  /** Attaches nothing. */
  async startPlugin(): Promise<void> {
    this.backend = this.#make();
    await this.backend.start('existing');
  }

  /** Closes and detaches everything, as before an orderly shutdown. */
  async stop(): Promise<void> {
    for (const volume of this.volumes.values()) await volume.detach();
    await this.backend.stop();
  }

  async start(): Promise<void> {
    await this.startPlugin();
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
    await this.fixture.powerCut();
    const ledger = openLedgerHere(`${this.directory}/pool.sqlite`);
    ledger.recordStart('the boot before', this.options.passDiscards);
    ledger.close();
    await this.start();
    for (const volume of this.volumes.values()) volume.image = volume.read();
  }

  #add(id: string, image: TaggedImage): WorldVolume {
    const volume = new WorldVolume(this, id, image);
    this.volumes.set(id, volume);
    return volume;
  }

  async #letGo(): Promise<void> {
    for (const volume of this.volumes.values()) volume.close();
    await this.backend.stop().catch(() => undefined);
  }

  #make(): ThinBackend {
    const options = {
      pool: 'thin',
      directory: this.directory,
      owner: 'kept bases',
      devices: { metadata: this.metadata.path, data: this.data.path },
      embeddedPoolBytes: null,
      dataBlockBytes: BigInt(DATA_BLOCK_BYTES),
      passDiscards: this.options.passDiscards,
      errorWhenFull: true,
      lowWaterPercent: 10n,
      overcommitPercent: 1000n,
      reservePercent: 0n,
      onEvent: () => undefined,
    };
    return new ThinBackend(this.native, options, openLedgerInline);
  }
}
