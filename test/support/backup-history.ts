/** Backups of a volume that changes at random, made of files: real images and manifests, without a driver. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { checksumSegments, SEGMENT_BYTES } from '../../src/tools/backup/checksums.js';
import { copyIntoImage } from '../../src/tools/backup/copy-image.js';
import { writeRanges } from '../../src/tools/backup/ranges-file.js';
import { type Backup, Repository } from '../../src/tools/backup/repository.js';
import type { Entry } from '../../src/tools/client/list.js';
import { testManifest } from './backup-files.js';
import type { Random } from './random.js';
import { openRuntime } from './runtime.js';

const SIZE = 2 << 20;

export interface BackupPoint {
  backup: Backup;
  bytes: Buffer;
}

/** Each copied in whole into an image on top of the one before. */
export class BackupHistory {
  readonly points: BackupPoint[] = [];

  private constructor(
    private readonly directory: string,
    private readonly random: Random,
    readonly repository: Repository,
  ) {}

  static async begin(directory: string, random: Random): Promise<BackupHistory> {
    const repository = await Repository.open(join(directory, 'backups'), { create: true });
    return new BackupHistory(directory, random, repository);
  }

  async add(): Promise<void> {
    const base = this.points.at(-1)?.backup ?? null;
    const number = this.points.length + 1;
    const id = `snap-${number}`;
    const device = join(this.directory, 'device');
    const bytes = this.random.bytes(SIZE);
    writeFileSync(device, bytes);
    const lock = await this.repository.lock('vol-1');
    try {
      const creationTime = new Date(Date.UTC(2026, 0, number));
      const paths = await this.repository.begin('vol-1', { id, creationTime });
      const [path, sizeBytes] = [paths.rangesPartial, BigInt(SIZE)];
      const ranges = await writeRanges(whole(), { path, grainBytes: 4096n, sizeBytes });
      const backing = base?.manifest.image.file ?? null;
      const runtime = openRuntime(join(this.directory, 'runtime'));
      const image = { path: paths.imagePartial, sizeBytes, backing };
      await copyIntoImage({
        device,
        ranges,
        ...image,
        runtime,
        signal: new AbortController().signal,
      });
      const sums = await checksumSegments(paths.imagePartial);
      const below = base && { snapshotId: base.manifest.snapshot.id, manifest: base.name };
      const backup = await this.repository.commit(paths, {
        ...testManifest(id, number, below),
        volume: { id: 'vol-1', sizeBytes },
        image: { file: paths.imageFile, segmentBytes: SEGMENT_BYTES, ...sums },
      });
      this.points.push({ backup, bytes });
    } finally {
      lock.release();
    }
  }
}

async function* whole(): AsyncGenerator<readonly Entry[]> {
  yield [{ offset: 0n, size: BigInt(SIZE) }];
}
