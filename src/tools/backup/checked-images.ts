/**
 * Opens images for QEMU's programs so that every byte that a program gets is part of a segment that has the checksum of the
 * manifest: a place that answers differently from one time to the next changes nothing. A program of QEMU reads an image over NBD
 * from nbdkit, which reads it over HTTP from this process, each on a unix socket. Knows no place where images are.
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { join } from 'node:path';
import { CsiError, messageOf } from '../../base/errors.js';
import type { RuntimeDirectory } from '../../base/system/runtime-directory.js';
import { Cleanup } from '../client/cleanup.js';
import type { ImageChain, ServedImage } from '../nbd/image-chain.js';
import { HEADER_MAX_BYTES, parseHeader } from '../nbd/image-header.js';
import { serveFile } from '../nbd/servers.js';
import { makeSocketDirectory } from '../nbd/socket-directory.js';
import { digest } from './checksums.js';
import { checkHeader, damagedAt } from './manifest-checks.js';
import { StoreError } from './object-store.js';
import { type Backup, imagePathOf } from './stored-backup.js';

/** Of all segments of the images that are open together. */
const CACHE_BYTES = 256 << 20;
/** Segments that are read before they are asked for. */
const AHEAD = 2;
/** The longest request: nbdkit passes on what QEMU asks for, up to 32 MiB. */
const MOST_BYTES = 64 << 20;

export interface Opening {
  /** Holds the sockets of the servers. */
  runtime: RuntimeDirectory;
  signal: AbortSignal;
}

/** @param chain the full backup first */
export async function openChecked<T>(
  chain: readonly Backup[],
  segments: Segments,
  { runtime, signal }: Opening,
  work: (images: ImageChain) => Promise<T>,
): Promise<T> {
  const cleanup = new Cleanup();
  try {
    const sockets = makeSocketDirectory(runtime);
    cleanup.defer(() => sockets.discard());
    const http = new SegmentServer(segments, chain);
    cleanup.defer(() => http.close());
    const httpSocket = join(sockets.path, 'http');
    await http.listen(httpSocket);
    const images: ServedImage[] = [];
    for (const [index, backup] of chain.entries()) {
      const sizeBytes = await deviceSizeOf(backup, segments);
      const server = await serveFile({ httpSocket, path: `/${index}`, directory: sockets.path, signal });
      cleanup.defer(() => server.close());
      images.unshift({ path: imagePathOf(backup), socketPath: server.socketPath, sizeBytes });
    }
    return await work(images);
  } catch (thrown) {
    signal.throwIfAborted();
    // A program that gets no bytes does not know why.
    throw segments.failure ?? thrown;
  } finally {
    await cleanup.runAll();
  }
}

async function deviceSizeOf(backup: Backup, segments: Segments): Promise<bigint> {
  const header = parseHeader((await segments.get(backup, 0)).subarray(0, HEADER_MAX_BYTES), imagePathOf(backup));
  checkHeader(backup, header);
  return header.sizeBytes;
}

/** Segments whose checksums are right. The last ones that were used stay in memory. */
export class Segments {
  /** Why the first one that was asked for in vain could not be given. */
  failure: Error | null = null;
  /** The longest unused first. */
  readonly #known = new Map<string, { segment: Promise<Buffer>; bytes: number }>();
  #bytes = 0;

  /** @param read reads up to `length` bytes of an image, fewer at its end */
  constructor(
    private readonly read: (backup: Backup, offset: number, length: number) => Promise<Buffer<ArrayBuffer>>,
  ) {}

  async get(backup: Backup, index: number): Promise<Buffer> {
    const segment = this.#keep(backup, index);
    const { length } = backup.manifest.image.sha256;
    for (let ahead = 1; ahead <= AHEAD && index + ahead < length; ahead += 1) void this.#keep(backup, index + ahead);
    try {
      return await segment;
    } catch (thrown) {
      this.failure ??= thrown instanceof StoreError ? thrown : unreadable(backup, thrown);
      throw thrown;
    }
  }

  #keep(backup: Backup, index: number): Promise<Buffer> {
    const { file, segmentBytes } = backup.manifest.image;
    const key = `${file}:${index}`;
    const known = this.#known.get(key) ?? { segment: this.#read(backup, index), bytes: segmentBytes };
    if (this.#known.delete(key)) this.#bytes -= segmentBytes;
    this.#known.set(key, known);
    this.#bytes += segmentBytes;
    known.segment.catch(() => {
      if (this.#known.get(key) !== known) return;
      this.#known.delete(key);
      this.#bytes -= segmentBytes;
    });
    for (const [oldest, { bytes }] of this.#known) {
      if (this.#bytes <= CACHE_BYTES || oldest === key) break;
      this.#known.delete(oldest);
      this.#bytes -= bytes;
    }
    return known.segment;
  }

  async #read(backup: Backup, index: number): Promise<Buffer> {
    const { segmentBytes, sha256 } = backup.manifest.image;
    const segment = await this.read(backup, index * segmentBytes, segmentBytes);
    if ((await digest(segment)) !== sha256[index]) throw damagedAt(index, segmentBytes);
    return segment;
  }
}

const unreadable = (backup: Backup, thrown: unknown): CsiError =>
  CsiError.failedPrecondition(
    `the backup cannot be read: ${imagePathOf(backup)}: ${messageOf(thrown)}; use an older backup, or another copy of the object`,
    { cause: thrown },
  );

/** Where the header of an image has the place and the length of the name of its base. Zeros mean that it has none. */
const BACKING = { start: 8, end: 20 };

/** Gives the images of a chain over HTTP: /0 is the first one. */
class SegmentServer {
  readonly #server: Server;

  constructor(
    private readonly segments: Segments,
    private readonly chain: readonly Backup[],
  ) {
    this.#server = createServer((request, response) => {
      this.#answer(request, response).catch((thrown: unknown) => {
        response.writeHead(502).end(messageOf(thrown));
      });
    });
  }

  async listen(path: string): Promise<void> {
    this.#server.listen(path);
    await once(this.#server, 'listening');
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  async #answer({ method, url, headers }: IncomingMessage, response: ServerResponse): Promise<void> {
    const backup = this.chain[Number(url?.slice(1))];
    if (backup === undefined) return void response.writeHead(404).end();
    const size = Number(backup.manifest.image.bytes);
    const common = { 'accept-ranges': 'bytes' };
    if (method === 'HEAD') return void response.writeHead(200, { ...common, 'content-length': size }).end();
    const [, first, last] = /^bytes=(\d+)-(\d+)$/.exec(headers.range ?? '') ?? [];
    const [start, end] = [Number(first), Math.min(size, Number(last) + 1)];
    if (!(end > start && end - start <= MOST_BYTES)) return void response.writeHead(416).end();
    const bytes = await this.#bytes(backup, start, end);
    const range = { 'content-length': bytes.length, 'content-range': `bytes ${start}-${end - 1}/${size}` };
    response.writeHead(206, { ...common, ...range }).end(bytes);
  }

  async #bytes(backup: Backup, start: number, end: number): Promise<Buffer> {
    const { segmentBytes } = backup.manifest.image;
    const parts: Buffer[] = [];
    for (let at = start; at < end; at += parts.at(-1)?.length ?? 0) {
      const index = Math.floor(at / segmentBytes);
      const from = at - index * segmentBytes;
      parts.push((await this.segments.get(backup, index)).subarray(from, from + end - at));
    }
    const bytes = Buffer.concat(parts);
    // QEMU looks for the file that the header names even if it is given another one.
    if (start < BACKING.end) bytes.fill(0, Math.max(0, BACKING.start - start), BACKING.end - start);
    return bytes;
  }
}
