/**
 * The manifest of one backup. It names the content of an image, the image's base, and its checksums. The manifest is a
 * JSON file beside the image; an image without a manifest is no backup. Sizes are strings in the file, because most
 * JSON readers are inexact above 2^53. docs/backup.md describes the fields.
 *
 * The reader assumes that anybody may have written a manifest: it checks every field, and accepts only file names in
 * the manifest's own directory.
 */
import { createHash } from 'node:crypto';
import { CsiError } from '../../base/errors.js';
import type { Compression } from '../nbd/image.js';
import { isPlainName } from '../nbd/image-header.js';

export const MANIFEST_VERSION = 1;
/** Enough for the digests of an image of 14 TiB. */
export const MANIFEST_MAX_BYTES = 64 << 20;

/** The snapshot whose backup is the base of another backup. */
export interface BaseName {
  readonly driver: string;
  readonly snapshotId: string;
  /** ISO 8601, UTC. */
  readonly creationTime: string;
}

export interface Manifest {
  /** Name and version of the program that made the backup. */
  readonly tool: string;
  readonly driver: { readonly name: string; readonly version: string };
  /** The driver's node id; empty if the driver has none. */
  readonly node: string;
  /** `sectorBytes` is null if the source was a file, or if the program that made the backup did not record the sectors. */
  readonly volume: {
    readonly id: string;
    readonly sizeBytes: bigint;
    readonly sectorBytes: number | null;
  };
  /** `creationTime` is in ISO 8601, UTC. */
  readonly snapshot: { readonly id: string; readonly creationTime: string };
  /** Null for a full backup. */
  readonly base: BaseName | null;
  readonly method: 'full' | 'delta';
  /** Why a full backup was made; null for a delta, or if a full backup was requested. */
  readonly reason: string | null;
  /** Why backups that are newer than the base could not be the base. */
  readonly skipped: readonly string[];
  /** The copied ranges. `listedBytes` is their size before they were rounded to the grain. */
  readonly ranges: {
    readonly count: number;
    readonly bytes: bigint;
    readonly listedBytes: bigint;
    readonly grainBytes: bigint;
    readonly sha256: string;
  };
  readonly image: {
    readonly file: string;
    readonly bytes: bigint;
    readonly segmentBytes: number;
    /** The digest of each segment. */
    readonly sha256: readonly string[];
    /** Null if its clusters are not compressed. */
    readonly compression: Compression | null;
  };
  /** ISO 8601, UTC. */
  readonly startedAt: string;
  readonly completedAt: string;
}

export function formatManifest(manifest: Manifest): string {
  const body = { version: MANIFEST_VERSION, ...manifest };
  const plain = JSON.parse(JSON.stringify(body, bigintAsText)) as Record<string, unknown>;
  return `${JSON.stringify({ ...plain, checksum: checksumOf(plain) }, null, 2)}\n`;
}

/** Throws FAILED_PRECONDITION, with the path and the fault, if the text is no intact manifest of the known version. */
export function parseManifest(text: string, path: string): Manifest {
  const refuse = (what: string, remedy = 'restore the file from another copy, or make a new full backup'): CsiError =>
    CsiError.failedPrecondition(`the manifest ${path} ${what}; ${remedy}`);
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    throw refuse('is not JSON');
  }
  const fields = new Fields(parsed, '', refuse);
  const version = fields.number('version');
  if (version !== MANIFEST_VERSION) {
    throw refuse(
      `has version ${version}, and this program reads version ${MANIFEST_VERSION}`,
      'use the version of blockdelta that has made it, or a newer one',
    );
  }
  const { checksum, ...body } = parsed as Record<string, unknown>;
  if (checksum !== checksumOf(body)) throw refuse('does not have the checksum that it states');
  return readFields(fields, refuse);
}

function readFields(fields: Fields, refuse: (what: string) => CsiError): Manifest {
  const [driver, volume, snapshot] = ['driver', 'volume', 'snapshot'].map((name) => fields.object(name)) as [
    Fields,
    Fields,
    Fields,
  ];
  const base = fields.isNull('base') ? null : fields.object('base');
  const [ranges, image] = [fields.object('ranges'), fields.object('image')];
  const [bytes, segmentBytes] = [image.bytes('bytes'), image.segmentBytes('segmentBytes')];
  const sha256 = image.digests('sha256');
  if (BigInt(sha256.length) !== (bytes + BigInt(segmentBytes) - 1n) / BigInt(segmentBytes)) {
    throw refuse(`has ${sha256.length} digests for ${bytes} bytes in segments of ${segmentBytes}`);
  }
  const method = fields.text('method');
  if (method !== 'full' && method !== 'delta') throw refuse(`has the unknown method '${method}'`);
  if ((base === null) !== (method === 'full')) {
    throw refuse(`has method '${method}' and ${base === null ? 'no' : 'a'} base`);
  }
  return {
    tool: fields.text('tool'),
    driver: { name: driver.text('name'), version: driver.text('version') },
    node: fields.text('node'),
    volume: {
      id: volume.text('id'),
      sizeBytes: volume.bytes('sizeBytes'),
      sectorBytes: volume.isNull('sectorBytes') ? null : volume.number('sectorBytes'),
    },
    snapshot: { id: snapshot.text('id'), creationTime: snapshot.time('creationTime') },
    base:
      base === null
        ? null
        : {
            driver: base.text('driver'),
            snapshotId: base.text('snapshotId'),
            creationTime: base.time('creationTime'),
          },
    method,
    reason: fields.isNull('reason') ? null : fields.text('reason'),
    skipped: fields.isNull('skipped') ? [] : fields.texts('skipped'),
    ranges: {
      count: ranges.number('count'),
      bytes: ranges.bytes('bytes'),
      listedBytes: ranges.bytes('listedBytes'),
      grainBytes: ranges.bytes('grainBytes'),
      sha256: ranges.digest('sha256'),
    },
    image: {
      file: image.fileName('file'),
      bytes,
      segmentBytes,
      sha256,
      compression: compressionIn(image),
    },
    startedAt: fields.time('startedAt'),
    completedAt: fields.time('completedAt'),
  };
}

/** Only what prune and compact make depends on it: QEMU reads from the image itself how its clusters are compressed. */
const compressionIn = (image: Fields): Compression | null =>
  !image.isNull('compression') && image.text('compression') === 'zstd' ? 'zstd' : null;

/** The fields of an object in the file. Each method reads a field as one type and refuses any other value. */
class Fields {
  readonly #values: Readonly<Record<string, unknown>>;

  constructor(
    value: unknown,
    private readonly place: string,
    private readonly refuse: (what: string) => CsiError,
  ) {
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
    if (!isObject) throw refuse(`has no object ${place === '' ? 'at the top' : place}`);
    this.#values = value as Record<string, unknown>;
  }

  /** Also true for a missing field, because older programs did not write every field. */
  isNull(name: string): boolean {
    return (this.#values[name] ?? null) === null;
  }

  object(name: string): Fields {
    return new Fields(this.#values[name], this.#path(name), this.refuse);
  }

  text(name: string): string {
    const value = this.#values[name];
    return typeof value === 'string' ? value : this.#wrong(name, 'text');
  }

  number(name: string): number {
    const value = this.#values[name];
    const isWhole = typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;
    return isWhole ? value : this.#wrong(name, 'a whole number');
  }

  bytes(name: string): bigint {
    const text = this.text(name);
    return /^\d{1,19}$/.test(text) ? BigInt(text) : this.#wrong(name, 'a number of bytes as text');
  }

  time(name: string): string {
    const text = this.text(name);
    return Number.isNaN(Date.parse(text)) ? this.#wrong(name, 'a time') : text;
  }

  segmentBytes(name: string): number {
    const bytes = this.number(name);
    const isUsable = bytes >= MIN_SEGMENT_BYTES && bytes <= MAX_SEGMENT_BYTES;
    return isUsable ? bytes : this.#wrong(name, 'a size from 1 MiB to 256 MiB');
  }

  fileName(name: string): string {
    const text = this.text(name);
    return isPlainName(text) ? text : this.#wrong(name, 'the name of a file beside it');
  }

  digest(name: string): string {
    const text = this.text(name);
    return DIGEST.test(text) ? text : this.#wrong(name, 'a SHA-256 digest');
  }

  texts(name: string): string[] {
    const value = this.#values[name];
    const areTexts = Array.isArray(value) && value.every((each) => typeof each === 'string');
    return areTexts ? (value as string[]) : this.#wrong(name, 'a list of texts');
  }

  digests(name: string): string[] {
    const texts = this.texts(name);
    const areDigests = texts.every((each) => DIGEST.test(each));
    return areDigests ? texts : this.#wrong(name, 'a list of SHA-256 digests');
  }

  #path(name: string): string {
    return this.place === '' ? name : `${this.place}.${name}`;
  }

  #wrong(name: string, expected: string): never {
    throw this.refuse(`has no valid ${this.#path(name)}: expected ${expected}`);
  }
}

const MIN_SEGMENT_BYTES = 1 << 20;
/** Each segment is read into memory as a whole. */
const MAX_SEGMENT_BYTES = 256 << 20;
const DIGEST = /^[0-9a-f]{64}$/;

const bigintAsText = (_key: string, value: unknown): unknown => (typeof value === 'bigint' ? value.toString() : value);

/** The checksum covers the fields in the order in which they stand in the file. */
function checksumOf(body: Record<string, unknown>): string {
  return createHash('sha256').update(JSON.stringify(body)).digest('hex');
}
