/** A real directory tree to back up, and the kinds of change a working day makes to it. */
import { appendFile, copyFile, mkdir, open, opendir, rm, stat, writeFile } from 'node:fs/promises';
import { randomBytes } from 'node:crypto';
import { dirname, join, relative } from 'node:path';

const BIGGEST_FILE = 32 * 1024 * 1024;

async function* regularFiles(directory) {
  for await (const entry of await opendir(directory)) {
    const path = join(directory, entry.name);
    if (entry.isDirectory()) yield* regularFiles(path);
    else if (entry.isFile()) yield path;
  }
}

/** Copies regular files until about that many bytes, or that many files, are there. */
export async function copyTree(source, target, { bytes, files }) {
  const copied = { files: 0, bytes: 0 };
  for await (const path of regularFiles(source)) {
    const { size } = await stat(path);
    if (size > BIGGEST_FILE) continue;
    const destination = join(target, relative(source, path));
    await mkdir(dirname(destination), { recursive: true });
    await copyFile(path, destination);
    copied.files += 1;
    copied.bytes += size;
    if (copied.bytes >= bytes || copied.files >= files) break;
  }
  return copied;
}

/**
 * Every 40th file is appended to, every 40th overwritten in place, every 40th deleted; 100 new ones, in a directory of
 * that name.
 */
export async function changeTree(tree, name) {
  const counts = { appended: 0, overwritten: 0, deleted: 0, new: 0 };
  const files = [];
  for await (const path of regularFiles(tree)) files.push(path);
  for (const [index, path] of files.entries()) {
    if (index % 40 === 0) {
      await appendFile(path, randomBytes(10_000));
      counts.appended += 1;
    } else if (index % 40 === 1) {
      await overwriteInPlace(path);
      counts.overwritten += 1;
    } else if (index % 40 === 2) {
      await rm(path);
      counts.deleted += 1;
    }
  }
  await mkdir(join(tree, name));
  for (; counts.new < 100; counts.new += 1) {
    await writeFile(join(tree, name, `file-${counts.new}`), randomBytes(50_000));
  }
  return counts;
}

async function overwriteInPlace(path) {
  const file = await open(path, 'r+');
  try {
    const { size } = await file.stat();
    const length = Math.min(size, 4096);
    await file.write(randomBytes(length), 0, length, Math.floor((size - length) / 2));
  } finally {
    await file.close();
  }
}
