/**
 * A repository with the backups of a volume that changes at random, and the bytes of each snapshot. The images are
 * made as a backup makes them, from a file in place of a device and from lists that are computed from the bytes.
 */
import { copyFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { checksumSegments, SEGMENT_BYTES } from '../../src/backup/checksums.js';
import { copyIntoImage } from '../../src/backup/copy-image.js';
import { writeRanges } from '../../src/backup/ranges-file.js';
import { type Backup, Repository } from '../../src/backup/repository.js';
import type { Entry } from '../../src/client/list.js';
import { testManifest } from './backup-files.js';
import type { Random } from './random.js';
import { openRuntime } from './runtime.js';

const BLOCK = 4096;

export interface Point {
  backup: Backup;
  bytes: Buffer;
}

export class BackupHistory {
  readonly repository: Repository;
  readonly points: Point[] = [];
  #bytes: Buffer;

  constructor(
    private readonly directory: string,
    private readonly random: Random,
    sizeBytes = 2 << 20,
  ) {
    this.repository = new Repository(join(directory, 'backups'));
    this.#bytes = Buffer.alloc(sizeBytes);
  }

  /** Changes the volume and makes a backup of it: a full one, or one that is based on the newest. */
  async add(
    method: 'full' | 'delta' = this.points.length === 0 ? 'full' : 'delta',
  ): Promise<Point> {
    const before = Buffer.from(this.#bytes);
    this.#change();
    const base = method === 'full' ? null : (this.points.at(-1) ?? null);
    const entries = differing(base === null ? Buffer.alloc(before.length) : before, this.#bytes);
    const point = { backup: await this.#back(entries, base), bytes: Buffer.from(this.#bytes) };
    this.points.push(point);
    return point;
  }

  #change(): void {
    const blocks = this.#bytes.length / BLOCK;
    for (let count = 0; count < 1 + this.random.below(40); count += 1) {
      const at = this.random.below(blocks) * BLOCK;
      const length = Math.min(1 + this.random.below(8), blocks - at / BLOCK) * BLOCK;
      // Zeros too: what became zero must not show what is below.
      this.#bytes.fill(this.random.below(3), at, at + length);
    }
    if (this.random.below(4) === 0) {
      this.#bytes = Buffer.concat([this.#bytes, Buffer.alloc(BLOCK * 3, 7)]);
    }
  }

  async #back(entries: readonly Entry[], base: Point | null): Promise<Backup> {
    const { repository } = this;
    const id = `snap-${this.points.length + 1}`;
    const device = join(this.directory, 'device');
    writeFileSync(device, this.#bytes);
    const lock = await repository.lock('vol-1');
    try {
      const creationTime = new Date(Date.UTC(2026, 0, 1, this.points.length));
      const paths = await repository.begin('vol-1', { id, creationTime });
      const sizeBytes = BigInt(this.#bytes.length);
      const ranges = await writeRanges(only(entries), {
        ...{ path: paths.rangesPartial, grainBytes: BigInt(BLOCK), sizeBytes },
      });
      const backing = base?.backup.manifest.image.file ?? null;
      const { signal } = new AbortController();
      const runtime = openRuntime(join(this.directory, 'runtime'));
      await copyIntoImage({
        ...{ device, ranges, path: paths.imagePartial, sizeBytes, backing, runtime, signal },
      });
      const { bytes, sha256 } = await checksumSegments(paths.imagePartial);
      const below = base && {
        snapshotId: base.backup.manifest.snapshot.id,
        manifest: base.backup.name,
      };
      const manifest = testManifest(id, 1, below);
      return await repository.commit(paths, {
        ...manifest,
        volume: { id: 'vol-1', sizeBytes },
        snapshot: { id, creationTime: creationTime.toISOString() },
        image: { file: paths.imageFile, bytes, segmentBytes: SEGMENT_BYTES, sha256 },
      });
    } finally {
      lock.release();
    }
  }
}

async function* only(entries: readonly Entry[]): AsyncGenerator<readonly Entry[]> {
  yield entries;
}

/** Blocks that differ; beyond the end of `before` there are zeros. */
function differing(before: Buffer, after: Buffer): Entry[] {
  const entries: Entry[] = [];
  for (let at = 0; at < after.length; at += BLOCK) {
    const old = at < before.length ? before.subarray(at, at + BLOCK) : Buffer.alloc(BLOCK);
    if (!old.equals(after.subarray(at, at + BLOCK))) {
      entries.push({ offset: BigInt(at), size: BigInt(BLOCK) });
    }
  }
  return entries;
}

/** Keeps a copy of a file while a test damages it. */
export function keepCopy(path: string): () => void {
  copyFileSync(path, `${path}.kept`);
  return () => copyFileSync(`${path}.kept`, path);
}
