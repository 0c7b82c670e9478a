/**
 * A raw block volume whose content is known byte for byte, for checks that repeat how a product has lost changed blocks. Each
 * snapshot that it takes has its list of allocated ranges read and judged at once, as a backup program does; every list that is asked
 * for later is compared with what was written. Knows no loss.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { StatusCode } from '../../base/errors.js';
import { BlockContent, type BlockEditor, expectSameBytes, readImage } from './block-content.js';
import type { CheckContext } from './check.js';
import { CheckSkipped, expect, expectRoom } from './failure.js';
import { allocatedOf, deltaOf } from './list-request.js';
import { type ListFields, type MetadataList, readList, readToEnd } from './lists.js';
import type { Snapshot, Volume } from './objects.js';
import { CHUNK_BYTES, chunkOf, expectSound, type Image, zeroImage } from './oracle.js';
import { describeRefusal } from './refusal.js';

/** The unit of most writes: the smallest that most drivers track. */
export const UNIT = 4096;
/** Histories place their changes at fractions of the volume, and some of them need room in between. */
const SMALLEST_BYTES = 4 << 20;

export interface TakenSnapshot {
  readonly snapshot: Snapshot;
  readonly image: Image;
}

export class LossHistory {
  #path = '';

  private constructor(
    readonly context: CheckContext,
    readonly volume: Volume,
    readonly content: BlockContent,
  ) {}

  /** Makes and publishes a new volume. Throws CheckSkipped if the run's volumes are too small. */
  static async start(context: CheckContext, sizeBytes?: number): Promise<LossHistory> {
    const volume = await context.volumes.create({ access: 'block', ...(sizeBytes === undefined ? {} : { sizeBytes }) });
    return LossHistory.#of(context, volume, new BlockContent(volume.sizeBytes));
  }

  /** Makes and publishes a volume with the content of a snapshot, or of this history's volume. */
  async descendant(from: TakenSnapshot | 'volume'): Promise<LossHistory> {
    const { context, volume, content } = this;
    const [source, image] =
      from === 'volume' ? [{ volumeId: volume.id }, content.image()] : [{ snapshotId: from.snapshot.id }, from.image];
    const made = await context.volumes.create({ access: 'block', sizeBytes: image.sizeBytes, ...source });
    const history = await LossHistory.#of(context, made, new BlockContent(made.sizeBytes, image));
    await history.expectContent('the new volume');
    return history;
  }

  static async #of(context: CheckContext, volume: Volume, content: BlockContent): Promise<LossHistory> {
    expectRoom(volume.sizeBytes, SMALLEST_BYTES);
    const history = new LossHistory(context, volume, content);
    await history.open();
    return history;
  }

  get sizeBytes(): number {
    return this.volume.sizeBytes;
  }

  /** A place at that share of the volume, from 0 to 1. */
  at(share: number): number {
    return Math.floor((this.sizeBytes * share) / CHUNK_BYTES) * CHUNK_BYTES;
  }

  bytes(length: number): Buffer {
    return this.context.random.bytes(length);
  }

  /** Writes new random bytes to each of the ranges, in this order. */
  write(...ranges: readonly (readonly [offset: number, length: number])[]): Promise<void> {
    return this.edit(async (editor) => {
      for (const [offset, length] of ranges) await editor.write(offset, this.bytes(length));
    });
  }

  /** Changes one byte, surely. */
  increment(offset: number): Promise<void> {
    return this.content.increment(this.#path, offset);
  }

  zero(offset: number, length: number): Promise<void> {
    return this.edit((editor) => editor.write(offset, Buffer.alloc(length)));
  }

  /** Throws CheckSkipped if the device takes no discards, or still reads as before: then nothing has changed. */
  async discard(offset: number, length: number): Promise<void> {
    const before = this.content.image();
    await this.edit((editor) => editor.discard(offset, length));
    const after = this.content.image();
    for (let index = Math.floor(offset / CHUNK_BYTES); index * CHUNK_BYTES < offset + length; index += 1) {
      const [was, is] = [chunkOf(before, index), chunkOf(after, index)];
      if (was === null || is === null || !was.equals(is)) return;
    }
    throw new CheckSkipped('a discard changes nothing that is read from the volumes of this driver');
  }

  /** Makes changes between which nobody asks for a flush. Throws CheckSkipped if the device takes no discards. */
  async edit(change: (editor: BlockEditor) => Promise<void>): Promise<void> {
    await this.content.edit(this.#path, change);
  }

  /** Writes without a flush, takes the snapshot while the device stays open, and resolves to it. */
  async snapshotUnflushed(ranges: readonly (readonly [offset: number, length: number])[], waitMs: number) {
    let snapshot: Snapshot | null = null;
    await this.edit(async (editor) => {
      for (const [offset, length] of ranges) await editor.write(offset, this.bytes(length));
      await delay(waitMs);
      snapshot = await this.context.volumes.snapshot(this.volume);
    });
    return snapshot as unknown as Snapshot;
  }

  /** Takes a snapshot, and judges its allocated ranges. */
  async snapshot(): Promise<TakenSnapshot> {
    const taken = await this.quietSnapshot();
    await this.expectAllocated(taken);
    return taken;
  }

  /** Takes a snapshot and asks for no list. */
  async quietSnapshot(): Promise<TakenSnapshot> {
    return { snapshot: await this.context.volumes.snapshot(this.volume), image: this.content.image() };
  }

  async grow(sizeBytes: number): Promise<void> {
    await this.context.volumes.expand(this.volume, sizeBytes);
    this.content.sizeBytes = this.volume.sizeBytes;
  }

  async open(): Promise<void> {
    this.#path = await this.context.volumes.publish(this.volume);
  }

  /** Unpublishes, unstages and detaches the volume. */
  async close(): Promise<void> {
    await this.context.volumes.unpublish(this.volume);
  }

  /** Fails unless the volume reads as what was written to it. */
  async expectContent(subject: string): Promise<void> {
    expectSameBytes(subject, this.content.image(), await readImage(this.#path, this.sizeBytes));
  }

  /** Fails unless a volume that is restored from the snapshot has its bytes. */
  async expectRestorable(taken: TakenSnapshot): Promise<void> {
    const restored = await this.descendant(taken);
    await restored.close();
  }

  /** Fails if the list of allocated ranges lacks a byte that is not zero. Resolves to the list. */
  async expectAllocated({ snapshot, image }: TakenSnapshot): Promise<MetadataList> {
    const list = await readList(this.context, allocatedOf(snapshot));
    const comparison = { base: zeroImage(image.sizeBytes), target: image, zerosMayBeMissing: true };
    expectSound('GetMetadataAllocated', comparison, list.entries);
    this.#expectCapacity('GetMetadataAllocated', list, image);
    return list;
  }

  /** Fails if the delta lacks a byte that differs. Resolves to the list. */
  async expectDelta(base: TakenSnapshot, target: TakenSnapshot, fields: ListFields = {}): Promise<MetadataList> {
    const list = await readList(this.context, deltaOf(base.snapshot, target.snapshot), fields);
    this.#judge('GetMetadataDelta', base, target, list);
    return list;
  }

  /** Fails if a delta is given and lacks a byte that differs; a refusal with one of the codes passes. Resolves to whether it is given. */
  async expectDeltaOrRefusal(
    subject: string,
    base: TakenSnapshot,
    target: TakenSnapshot,
    codes: readonly StatusCode[] = [StatusCode.NOT_FOUND, StatusCode.FAILED_PRECONDITION],
  ): Promise<boolean> {
    const list = await readToEnd(this.context, deltaOf(base.snapshot, target.snapshot));
    if ((codes as readonly number[]).includes(list.end.code)) return false;
    expect(list.end.code === StatusCode.OK, subject, 'the list, or a refusal that says why', () =>
      describeRefusal(list.end),
    );
    this.#judge(subject, base, target, list);
    return true;
  }

  /** Judges the delta between every two snapshots, live, and then from each base after its deletion, where the driver gives it. */
  async expectAllDeltas(snapshots: readonly TakenSnapshot[]): Promise<void> {
    for (const [index, base] of snapshots.entries()) {
      for (const target of snapshots.slice(index + 1)) await this.expectDelta(base, target);
    }
    const last = snapshots.at(-1) as TakenSnapshot;
    let isGiven = false;
    for (const base of snapshots.slice(0, -1)) {
      await this.context.volumes.deleteSnapshot(base.snapshot);
      isGiven = (await this.expectDeltaOrRefusal('GetMetadataDelta from a deleted base', base, last)) || isGiven;
    }
    if (!isGiven) this.context.note('the driver gives no delta from a deleted base, so live bases alone were compared');
  }

  #judge(subject: string, base: TakenSnapshot, target: TakenSnapshot, list: MetadataList): void {
    expectSound(subject, { base: base.image, target: target.image }, list.entries);
    this.#expectCapacity(subject, list, target.image);
  }

  #expectCapacity(subject: string, { messages }: MetadataList, { sizeBytes }: Image): void {
    for (const { capacityBytes } of messages) {
      const wanted = `volume_capacity_bytes ${sizeBytes}, the size when the snapshot was taken`;
      expect(capacityBytes === BigInt(sizeBytes), subject, wanted, () => `${capacityBytes}`);
    }
  }
}
