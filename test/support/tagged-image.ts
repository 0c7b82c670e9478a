/**
 * The content of a volume as one number a page, zero for zeros: cheap to keep of hundreds of snapshots,
 * and to compare. A page that is written gets a number that no page of this process ever had.
 */
import assert from 'node:assert/strict';
import { readSync, writeSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { Cover } from '../../src/tools/conformance/ranges.js';
import { writeDurably } from './contents.js';
import type { MetadataAnswer } from './csi-client.js';
import { assertWellFormed } from './metadata-check.js';

export const PAGE_BYTES = 4096;

export class TaggedImage {
  static #lastTag = 0;

  constructor(readonly tags: Uint32Array) {}

  static zeros(sizeBytes: number): TaggedImage {
    return new TaggedImage(new Uint32Array(sizeBytes / PAGE_BYTES));
  }

  /** Throws for a page that is not of one number. */
  static of(bytes: Buffer): TaggedImage {
    const image = TaggedImage.zeros(bytes.length);
    const expected = Buffer.alloc(PAGE_BYTES);
    for (let page = 0; page < image.tags.length; page += 1) {
      const content = bytes.subarray(page * PAGE_BYTES, (page + 1) * PAGE_BYTES);
      const tag = content.readUInt32LE(0);
      assert.ok(content.equals(fillPage(expected, tag)), `page ${page} is torn`);
      image.tags[page] = tag;
    }
    return image;
  }

  /** What a device holds. */
  static read(fd: number, sizeBytes: number): TaggedImage {
    const bytes = Buffer.alloc(sizeBytes);
    for (let done = 0; done < sizeBytes; ) {
      const read = readSync(fd, bytes, done, sizeBytes - done, done);
      assert.ok(read > 0, 'the device has its size');
      done += read;
    }
    return TaggedImage.of(bytes);
  }

  /** New content for so many pages. */
  static newPages(count: number): { tags: Uint32Array; bytes: Buffer } {
    const tags = new Uint32Array(count);
    const bytes = Buffer.alloc(count * PAGE_BYTES);
    for (let index = 0; index < count; index += 1) {
      TaggedImage.#lastTag += 1;
      tags[index] = TaggedImage.#lastTag;
      fillPage(bytes.subarray(index * PAGE_BYTES, (index + 1) * PAGE_BYTES), TaggedImage.#lastTag);
    }
    return { tags, bytes };
  }

  get sizeBytes(): number {
    return this.tags.length * PAGE_BYTES;
  }

  /** A copy, with zeros behind it if it is to be larger. */
  copy(sizeBytes = this.sizeBytes): TaggedImage {
    const copy = TaggedImage.zeros(sizeBytes);
    copy.tags.set(this.tags);
    return copy;
  }

  /** New content for these pages, here and on the device. */
  write(fd: number, page: number, count: number): void {
    const { tags, bytes } = TaggedImage.newPages(count);
    writeSync(fd, bytes, 0, bytes.length, page * PAGE_BYTES);
    this.tags.set(tags, page);
  }

  /**
   * The same, and durable when it resolves. If nothing else keeps the device open, its close drops what the page
   * cache holds, so that the device itself is written and, by `verify`, read.
   */
  async writeDurably(devicePath: string, page: number, count: number): Promise<void> {
    const { tags, bytes } = TaggedImage.newPages(count);
    const at = page * PAGE_BYTES;
    await writeDurably(devicePath, 'r+', (device) => device.write(bytes, 0, bytes.length, at));
    this.tags.set(tags, page);
  }

  /** Fails unless the device holds this. */
  async verify(devicePath: string, what: string): Promise<void> {
    const found = TaggedImage.of(await readFile(devicePath));
    assert.equal(found.sizeBytes, this.sizeBytes, `the size of ${what}`);
    assert.deepEqual(found.changedSince(this), [], `pages of ${what} that hold something else`);
  }

  equals(other: TaggedImage): boolean {
    return Buffer.from(this.tags.buffer).equals(Buffer.from(other.tags.buffer));
  }

  /** Pages whose content here differs from that in an older image, which may be smaller. */
  changedSince(base: TaggedImage): number[] {
    return [...this.tags.keys()].filter((page) => this.tags[page] !== (base.tags[page] ?? 0));
  }
}

function fillPage(page: Buffer, tag: number): Buffer {
  page.writeUInt32LE(tag, 0);
  return page.fill(page.subarray(0, 4), 4);
}

/** The list from one image to a later one is well-formed and misses no page that differs. */
export function assertSound(base: TaggedImage, target: TaggedImage, list: MetadataAnswer, label: string): void {
  assertWellFormed(list, target.sizeBytes);
  const cover = new Cover(list.ranges);
  const missed = target.changedSince(base).filter((page) => !cover.holds(page * PAGE_BYTES, (page + 1) * PAGE_BYTES));
  assert.deepEqual(missed, [], `pages missed by the ${label}`);
}
