/** Backups of a volume that changes at random, made of files: real images and manifests, without a driver. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { baseNameOf } from '../../src/tools/backup/chains.js';
import { checksumSegments, SEGMENT_BYTES } from '../../src/tools/backup/checksums.js';
import { copyIntoImage } from '../../src/tools/backup/copy-image.js';
import { DirectoryRepository } from '../../src/tools/backup/directory-repository.js';
import { writeRanges } from '../../src/tools/backup/ranges-file.js';
import type { Repository } from '../../src/tools/backup/repository.js';
import type { Backup } from '../../src/tools/backup/stored-backup.js';
import type { Entry } from '../../src/tools/client/list.js';
import { BLOCK_BYTES } from '../../src/tools/nbd/image.js';
import { testManifest } from './backup-files.js';
import type { Random } from './random.js';

const BLOCK = 4096;
/** The first size. No multiple of a cluster, and enough for large clusters to pay if everything is copied. */
const SIZE_BYTES = (4 << 20) + 3 * BLOCK;

export interface BackupPoint {
  backup: Backup;
  bytes: Buffer;
}

/** Each an image on top of the one before, which holds everything or what has changed, and is compressed or not. */
export class BackupHistory {
  readonly points: BackupPoint[] = [];
  #number = 0;

  private constructor(
    private readonly directory: string,
    private readonly random: Random,
    readonly repository: Repository,
    private readonly firstBytes: number,
  ) {}

  /** @param given a directory, if left out */
  static async begin(
    directory: string,
    random: Random,
    given?: Repository,
    firstBytes = SIZE_BYTES,
  ): Promise<BackupHistory> {
    const repository = given ?? (await DirectoryRepository.open(join(directory, 'backups'), { create: true }));
    return new BackupHistory(directory, random, repository, firstBytes);
  }

  /**
   * @param blocks so many of 4 KiB are changed, some to zeros; left out: all of them
   * @param grownBlocks by so many, which are zeros at first, the volume has grown
   */
  async add(blocks?: number, grownBlocks = 0): Promise<void> {
    const last = this.points.at(-1)?.bytes;
    const size = (last?.length ?? this.firstBytes) + grownBlocks * BLOCK;
    if (blocks === undefined || last === undefined) return this.#backUp(this.random.bytes(size), WHOLE);
    const bytes = Buffer.concat([last, Buffer.alloc(grownBlocks * BLOCK)]);
    const changed: Entry[] = [];
    for (let count = 0; count < blocks; count += 1) {
      const at = this.random.below(size / BLOCK) * BLOCK;
      const content = count % 3 === 0 ? Buffer.alloc(BLOCK) : this.random.bytes(BLOCK);
      bytes.set(content, at);
      changed.push({ offset: BigInt(at), size: BigInt(BLOCK) });
    }
    changed.sort((a, b) => Number(a.offset - b.offset));
    await this.#backUp(bytes, changed);
  }

  /** The first blocks become zeros. */
  async zero(blocks: number): Promise<void> {
    const bytes = Buffer.from(this.points.at(-1)?.bytes ?? []).fill(0, 0, blocks * BLOCK);
    await this.#backUp(bytes, [{ offset: 0n, size: BigInt(blocks * BLOCK) }]);
  }

  async #backUp(bytes: Buffer, changed: readonly Entry[]): Promise<void> {
    const base = this.points.at(-1)?.backup ?? null;
    this.#number += 1;
    const number = this.#number;
    const id = `snap-${number}`;
    const compression = this.random.pick([null, 'zstd'] as const);
    const device = join(this.directory, 'device');
    writeFileSync(device, bytes);
    const lock = await this.repository.lock('vol-1');
    try {
      const creationTime = new Date(Date.UTC(2026, 0, number));
      const paths = await this.repository.begin('vol-1', { id, creationTime });
      const [path, sizeBytes] = [paths.rangesPartial, BigInt(bytes.length)];
      const ranges = await writeRanges(batch(changed), {
        of: id,
        path,
        grainBytes: BLOCK_BYTES,
        sizeBytes: () => sizeBytes,
      });
      const backing = base?.manifest.image.file ?? null;
      const image = { path: paths.imagePartial, sizeBytes, backing, compression };
      await copyIntoImage({ from: { device }, ranges, ...image, signal: new AbortController().signal });
      const sums = await checksumSegments(paths.imagePartial);
      const backup = await this.repository.commit(paths, {
        ...testManifest(id, number, base && baseNameOf(base)),
        volume: { id: 'vol-1', sizeBytes, sectorBytes: 512 },
        image: { file: paths.imageFile, segmentBytes: SEGMENT_BYTES, ...sums, compression },
      });
      this.points.push({ backup, bytes });
    } finally {
      lock.release();
    }
  }
}

/** The end of the volume cuts it off. */
const WHOLE: readonly Entry[] = [{ offset: 0n, size: 1n << 40n }];

async function* batch(entries: readonly Entry[]): AsyncGenerator<readonly Entry[]> {
  yield entries;
}
