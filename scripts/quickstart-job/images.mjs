/** Copying ranges from a block device to an image, and comparing the two byte by byte or by digests. */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { open } from 'node:fs/promises';

const CHUNK_BYTES = 4n * 1024n * 1024n;

export async function copyRanges(source, image, ranges, imageBytes) {
  const from = await open(source, 'r');
  const to = await open(image, 'a+').then(async (created) => {
    await created.close();
    return open(image, 'r+');
  });
  try {
    await to.truncate(Number(imageBytes));
    const buffer = Buffer.alloc(Number(CHUNK_BYTES));
    for (const { offset, size } of ranges) {
      for (let done = 0n; done < size; done += CHUNK_BYTES) {
        const length = Number(size - done < CHUNK_BYTES ? size - done : CHUNK_BYTES);
        await readFully(from, buffer, length, offset + done);
        await to.write(buffer, 0, length, Number(offset + done));
      }
    }
  } finally {
    await from.close();
    await to.close();
  }
}

/** The first offset at which two files of a size differ; null if they are the same. */
export async function compareFiles(left, right, size) {
  const files = [await open(left, 'r'), await open(right, 'r')];
  const buffers = files.map(() => Buffer.alloc(Number(CHUNK_BYTES)));
  try {
    for (let offset = 0n; offset < size; offset += CHUNK_BYTES) {
      const length = Number(size - offset < CHUNK_BYTES ? size - offset : CHUNK_BYTES);
      await Promise.all(files.map((file, index) => readFully(file, buffers[index], length, offset)));
      const [a, b] = buffers.map((buffer) => buffer.subarray(0, length));
      if (!a.equals(b)) return offset + BigInt(a.findIndex((byte, index) => byte !== b[index]));
    }
    return null;
  } finally {
    await Promise.all(files.map((file) => file.close()));
  }
}

/** The number and the digest of all bytes of a file or device. */
export async function digestOf(path) {
  const hash = createHash('sha256');
  let bytes = 0;
  for await (const chunk of createReadStream(path, { highWaterMark: Number(CHUNK_BYTES) })) {
    hash.update(chunk);
    bytes += chunk.length;
  }
  return { bytes, sha256: hash.digest('hex') };
}

async function readFully(file, buffer, length, position) {
  for (let done = 0; done < length; ) {
    const { bytesRead } = await file.read(buffer, done, length - done, Number(position) + done);
    if (bytesRead === 0) throw new Error(`short read at byte ${Number(position) + done}`);
    done += bytesRead;
  }
}
