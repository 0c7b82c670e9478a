/**
 * The content of a volume as one number a page, zero for zeros: cheap to keep of hundreds of snapshots,
 * and to compare. A page that is written gets a number that no page ever had.
 */
import assert from 'node:assert/strict';
import { readSync, writeSync } from 'node:fs';
import type { Range } from './csi-client.js';

export const PAGE_BYTES = 4096;

export class TaggedImage {
  static #nextTag = 1;
  readonly tags: Uint32Array;

  private constructor(tags: Uint32Array) {
    this.tags = tags;
  }

  static zeros(sizeBytes: number): TaggedImage {
    return new TaggedImage(new Uint32Array(sizeBytes / PAGE_BYTES));
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
    const bytes = Buffer.alloc(count * PAGE_BYTES);
    for (let index = 0; index < count; index += 1) {
      const tag = TaggedImage.#nextTag;
      TaggedImage.#nextTag += 1;
      this.tags[page + index] = tag;
      fillPage(bytes.subarray(index * PAGE_BYTES, (index + 1) * PAGE_BYTES), tag);
    }
    writeSync(fd, bytes, 0, bytes.length, page * PAGE_BYTES);
  }

  /** What a device holds. Throws for a page that is not of one number. */
  static read(fd: number, sizeBytes: number): TaggedImage {
    const image = TaggedImage.zeros(sizeBytes);
    const bytes = Buffer.alloc(sizeBytes);
    for (let done = 0; done < sizeBytes; ) {
      const read = readSync(fd, bytes, done, sizeBytes - done, done);
      assert.ok(read > 0, 'the device has its size');
      done += read;
    }
    for (let page = 0; page < image.tags.length; page += 1) {
      const content = bytes.subarray(page * PAGE_BYTES, (page + 1) * PAGE_BYTES);
      const tag = content.readUInt32LE(0);
      assert.ok(content.equals(fillPage(expected, tag)), `page ${page} is torn`);
      image.tags[page] = tag;
    }
    return image;
  }

  equals(other: TaggedImage): boolean {
    return Buffer.from(this.tags.buffer).equals(Buffer.from(other.tags.buffer));
  }

  /** Pages whose content here differs from that in an older image, which may be smaller. */
  changedSince(base: TaggedImage): number[] {
    const changed: number[] = [];
    for (let page = 0; page < this.tags.length; page += 1) {
      if (this.tags[page] !== (base.tags[page] ?? 0)) changed.push(page);
    }
    return changed;
  }
}

const expected = Buffer.alloc(PAGE_BYTES);

function fillPage(page: Buffer, tag: number): Buffer {
  page.writeUInt32LE(tag, 0);
  return page.fill(page.subarray(0, 4), 4);
}

/** Those of the pages that no range holds whole. */
export function missedPages(pages: readonly number[], ranges: readonly Range[]): number[] {
  let at = 0;
  return pages.filter((page) => {
    const start = BigInt(page * PAGE_BYTES);
    while (at < ranges.length && end(ranges[at]) <= start) at += 1;
    const range = ranges[at];
    return range === undefined || range.offset > start || end(range) < start + BigInt(PAGE_BYTES);
  });
}

const end = (range: Range | undefined): bigint => (range?.offset ?? 0n) + (range?.size ?? 0n);
