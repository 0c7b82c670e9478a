/** A change list with one part after the other broken; docs/engineering/change-lists.md has the format. */
import { crc32c } from './crc32c.js';

export const PAGE_BYTES = 4096;

export interface BrokenList {
  part: string;
  bytes: Buffer;
}

type Field = readonly [name: string, offset: number, bytes: 2 | 4 | 8];

const snapshotAt = (name: string, offset: number): readonly Field[] => [
  [`id of the ${name}`, offset, 4],
  [`inode of the ${name}`, offset + 64, 8],
  [`generation of the ${name}`, offset + 72, 8],
  [`size of the ${name}`, offset + 80, 8],
  [`change time of the ${name}`, offset + 88, 8],
];
const HEAD: readonly Field[] = [
  ['number of the head', 8, 8],
  ['file id in the head', 16, 8],
  ['magic', 24, 8],
  ['version', 40, 4],
  ['kind', 44, 4],
  ['number of pages', 48, 8],
  ['number of entries', 56, 8],
  ['sum of the entries', 64, 8],
  ...snapshotAt('target', 72),
  ...snapshotAt('base', 168),
  ['kind of snapshots', 264, 4],
  ['zeros', 268, 4],
];
const PAGE: readonly Field[] = [
  ['count', 4, 2],
  ['length of the entries', 6, 2],
  ['number', 8, 8],
  ['file id', 16, 8],
  ['first offset', 24, 8],
  ['end', 32, 8],
];

const pageOf = (file: Buffer, number: number): Buffer => file.subarray(number * PAGE_BYTES, (number + 1) * PAGE_BYTES);

/** Writes the checksum of a page. */
export function seal(page: Buffer): void {
  page.writeUInt32LE(crc32c(page.subarray(4)), 0);
}

/** @param whole a delta of at least three pages with entries of two bytes each */
export function brokenLists(whole: Buffer): BrokenList[] {
  const broken: BrokenList[] = [];
  const last = whole.length / PAGE_BYTES - 1;
  const add = (part: string, change: (file: Buffer) => Buffer): void => {
    const file = Buffer.from(whole);
    broken.push({ part, bytes: change(file) });
  };
  /** With the checksum that the page has to have then. */
  const addSealed = (part: string, number: number, change: (page: Buffer) => void): void =>
    add(part, (file) => {
      change(pageOf(file, number));
      seal(pageOf(file, number));
      return file;
    });
  for (let number = 0; number <= last; number += 1) {
    for (const [name, offset, bytes] of number === 0 ? HEAD : PAGE) {
      for (const by of [1, -1]) {
        addSealed(`${name} of page ${number} by ${by}`, number, (page) => {
          const mask = (1n << BigInt(8 * bytes)) - 1n;
          let value = 0n;
          for (let at = bytes - 1; at >= 0; at -= 1) value = (value << 8n) | BigInt(page[offset + at] ?? 0);
          value = (value + BigInt(by)) & mask;
          for (let at = 0; at < bytes; at += 1) page[offset + at] = Number((value >> BigInt(8 * at)) & 0xffn);
        });
      }
    }
    for (const offset of [0, 4, 8, 16, 24, 40, PAGE_BYTES - 1])
      add(`seal of page ${number} over byte ${offset}`, (file) => {
        pageOf(file, number)[offset] = (pageOf(file, number)[offset] ?? 0) ^ 1;
        return file;
      });
  }
  addSealed('an entry that begins later', 1, (page) => {
    page[42] = (page[42] ?? 0) + 1;
    page[43] = (page[43] ?? 0) - 1;
  });
  for (const bytes of [0, 1, PAGE_BYTES - 1, PAGE_BYTES, whole.length - PAGE_BYTES, whole.length - 1])
    add(`length: ${bytes} bytes`, (file) => file.subarray(0, bytes));
  for (const bytes of [1, PAGE_BYTES])
    add(`length: ${bytes} bytes more`, (file) => Buffer.concat([file, Buffer.alloc(bytes)]));
  add('no last page, and a head that knows', (file) => {
    pageOf(file, 0).writeBigUInt64LE(BigInt(last - 1), 48);
    seal(pageOf(file, 0));
    return file.subarray(0, last * PAGE_BYTES);
  });
  for (const isNumbered of [false, true])
    add(`order of the pages${isNumbered ? ', which are numbered' : ''}`, (file) => {
      const pages = [pageOf(whole, 2), pageOf(whole, 1)];
      for (const [at, page] of pages.entries()) {
        page.copy(pageOf(file, at + 1));
        if (isNumbered) pageOf(file, at + 1).writeBigUInt64LE(BigInt(at + 1), 8);
        if (isNumbered) seal(pageOf(file, at + 1));
      }
      return file;
    });
  return broken;
}
