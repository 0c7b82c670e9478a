/**
 * A thin pool on two disks that can fail, with restarts of the plugin and power cuts, for tests of sound
 * lists: it models the content of every volume, written through its device as by a workload.
 */
import assert from 'node:assert/strict';
import { closeSync, fsyncSync, openSync } from 'node:fs';
import type { TestContext } from 'node:test';
import type { ThinBackend } from '../../src/backends/thin/thin-backend.js';
import { newSnapshotId, newVolumeId } from '../../src/domain/identifiers.js';
import type { MetadataAnswer } from '../support/csi-client.js';
import { openLedgerHere } from '../support/direct-database.js';
import { blockDiscard, flushCache } from '../support/ioctls.js';
import { TEST_NODE_KEY } from '../support/records.js';
import { missedPages, PAGE_BYTES, TaggedImage } from '../support/tagged-image.js';
import { scanAll } from '../support/wire.js';
import { guestTest } from './guest.js';
import { type RigOptions, ThinRig } from './thin-rig.js';

const MIB = 1n << 20n;
const DATA_BLOCK_BYTES = 65_536;
export const PAGES_A_BLOCK = DATA_BLOCK_BYTES / PAGE_BYTES;

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
  readonly volumes = new Map<string, WorldVolume>();

  constructor(readonly rig: ThinRig) {}

  get backend(): ThinBackend {
    return this.rig.backend;
  }

  async volume(sizeBytes = 4 << 20): Promise<WorldVolume> {
    const id = newVolumeId(TEST_NODE_KEY);
    await this.backend.createVolume(id, BigInt(sizeBytes));
    return this.#add(id, TaggedImage.zeros(sizeBytes));
  }

  /** An attached one, with its first blocks written. */
  async written(blocks: number, sizeBytes?: number): Promise<WorldVolume> {
    const volume = await this.volume(sizeBytes);
    await volume.attach();
    for (let block = 0; block < blocks; block += 1) volume.writeBlock(block);
    return volume;
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
    const list = await scanAll(this.rig.native, await this.backend.scanSource(target.id, base.id));
    const missed = missedPages(target.image.changedSince(base.image), list.ranges);
    assert.deepEqual(missed, [], `pages missed from ${base.id} to ${target.id}`);
    return list;
  }

  /** Blocks that a list from the base to the target reports. */
  async reported(base: WorldSnapshot, target: WorldSnapshot): Promise<number[]> {
    const { ranges } = await this.soundDelta(base, target);
    return ranges.flatMap(({ offset, size }) => {
      const first = Number(offset) / DATA_BLOCK_BYTES;
      return Array.from(
        { length: Math.ceil(Number(size) / DATA_BLOCK_BYTES) },
        (_, i) => first + i,
      );
    });
  }

  /** Why the base is lost; null: it is not. */
  async lossOf({ id }: WorldSnapshot): Promise<string | null> {
    const { invalidated } = await this.backend.retainedBases();
    return invalidated.find(({ snapshotId }) => snapshotId === id)?.reason ?? null;
  }

  /** Closes and detaches everything, as before an orderly shutdown. */
  async stop(): Promise<void> {
    for (const volume of this.volumes.values()) await volume.detach();
    await this.backend.stop();
  }

  async start(): Promise<void> {
    await this.rig.next();
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
    await this.rig.metadata.fail();
    for (const volume of this.volumes.values()) volume.close();
    await this.rig.fixture.powerCut();
    const ledger = openLedgerHere(`${this.rig.directory}/pool.sqlite`);
    ledger.recordStart('the boot before', this.rig.options.passDiscards);
    ledger.close();
    await this.start();
    for (const volume of this.volumes.values()) volume.image = volume.read();
  }

  #add(id: string, image: TaggedImage): WorldVolume {
    const volume = new WorldVolume(this, id, image);
    this.volumes.set(id, volume);
    return volume;
  }
}

/** A test with a pool of its own. */
export function poolTest(
  title: string,
  options: RigOptions,
  story: (world: ThinPoolOnDisks, context: TestContext) => Promise<void>,
): void {
  guestTest(title, async (context) => {
    const backend = { overcommitPercent: 1000n, ...options.backend };
    const rig = await ThinRig.make('world', { dataBytes: 256n * MIB, ...options, backend });
    const world = new ThinPoolOnDisks(rig);
    try {
      await story(world, context);
    } catch (thrown) {
      // What fails behind this, because of it, would be all that is seen.
      console.log(thrown);
      throw thrown;
    } finally {
      for (const volume of world.volumes.values()) volume.close();
      await rig.dispose();
    }
  });
}
