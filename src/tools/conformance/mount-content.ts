/** Creates, extends, truncates and deletes files in a published mount volume at random, and syncs them. */
import { open, rm, truncate } from 'node:fs/promises';
import { join } from 'node:path';
import type { Random } from '../random.js';

const FILES = 40;
const LENGTHS = [100, 4000, 4096, 30_000, 200_000] as const;

/** The changes are durable when the promise resolves, to the number of bytes that were written. */
export async function changeFiles(target: string, random: Random, changes: number): Promise<number> {
  const present = new Set<string>();
  let bytes = 0;
  for (let count = 0; count < changes; count += 1) {
    const path = join(target, `conformance-${random.below(FILES)}`);
    const kind = random.below(8);
    if (kind === 0 || (kind === 1 && !present.has(path))) {
      await rm(path, { force: true });
      present.delete(path);
    } else if (kind === 1) {
      await truncate(path, random.below(5000));
    } else {
      bytes += await writeFile(path, random);
      present.add(path);
    }
  }
  await syncPath(target);
  return bytes;
}

async function writeFile(path: string, random: Random): Promise<number> {
  const bytes = random.bytes(random.pick(LENGTHS));
  const file = await open(path, 'a+');
  try {
    await file.write(bytes);
    await file.sync();
    return bytes.length;
  } finally {
    await file.close();
  }
}

async function syncPath(path: string): Promise<void> {
  const directory = await open(path, 'r');
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}
