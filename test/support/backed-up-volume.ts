/**
 * A random history of one volume with its backups: the volume is written, grown and snapshotted, the snapshots are
 * backed up and deleted in any order, and old backups are pruned and compacted. Every backup must hold what the device held at
 * its snapshot. Works with any driver. The truth is read from the device, which nothing writes between a change and
 * the next.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { RuntimeDirectory } from '../../src/base/system/runtime-directory.js';
import { backUp } from '../../src/tools/backup/backup.js';
import type { VolumeBackups } from '../../src/tools/backup/chains.js';
import { DirectoryRepository } from '../../src/tools/backup/directory-repository.js';
import { type PrunePlan, planCompact, planPrune, prune } from '../../src/tools/backup/prune.js';
import { assertIntact, restoreToFile } from '../../src/tools/backup/restore.js';
import { chooseBackup } from '../../src/tools/backup/select.js';
import { type Backup, imagePathOf } from '../../src/tools/backup/stored-backup.js';
import { verifyVolume } from '../../src/tools/backup/verify.js';
import { CsiDriver } from '../../src/tools/client/csi-driver.js';
import { assertSame } from './backups.js';
import { BlockWriter } from './block-writer.js';
import { FileWriter } from './file-writer.js';
import type { HeldVolume, Orchestrator } from './orchestrator.js';
import type { Random } from './random.js';
import { openRuntime } from './runtime.js';
import { writeAt } from './write-at.js';

/** What uses the volume. Changes are durable when `change` returns, and nothing writes after it. */
export interface Use {
  prepare(device: string): void;
  change(device: string, random: Random): void;
}

const BLOCK = 4096;

function run(program: string, ...args: string[]): string {
  // What it prints to stderr is part of the error that is thrown.
  return execFileSync(program, args, { stdio: ['ignore', 'pipe', 'pipe'] }).toString();
}

const sizeOf = (device: string): number => Number(run('blockdev', '--getsize64', device));

/** Most of what is written is in few places. */
export const RAW: Use = {
  prepare: (device) => writeAt(device, 0, Buffer.alloc(64 * BLOCK, 1)),
  change(device, random) {
    const sizeBytes = random.below(3) === 0 ? sizeOf(device) : 64 * BLOCK;
    const writer = new BlockWriter(device, sizeBytes, random);
    try {
      writer.randomOperations(1 + random.below(8), ['write', 'write', 'zeros', 'discard']);
    } finally {
      writer.close();
    }
    run('sync', device);
  },
};

/** Files of an ext4 that is mounted for each change. */
export function fileSystemUse(mountPoint: string): Use {
  let writer: FileWriter | undefined;
  return {
    prepare(device) {
      mkdirSync(mountPoint, { recursive: true });
      run('mkfs.ext4', '-q', '-F', '-b', String(BLOCK), device);
    },
    change(device, random) {
      run('e2fsck', '-f', '-p', device);
      run('resize2fs', device);
      run('mount', '-t', 'ext4', device, mountPoint);
      try {
        writer ??= new FileWriter(mountPoint, random);
        for (let count = 1 + random.below(8); count > 0; count -= 1) writer.randomOperation();
      } finally {
        run('umount', mountPoint);
      }
    },
  };
}

export interface BackedUpVolumeOptions {
  orchestrator: Orchestrator;
  socketPath: string;
  random: Random;
  /** Of its own; holds the backups and what is compared with them. */
  directory: string;
  use: Use;
  name: string;
  sizeBytes: number;
  growthBytes: number;
}

interface Point {
  readonly snapshotId: string;
  /** A sparse file with what the device held. */
  readonly truth: string;
  isLive: boolean;
  backup: Backup | null;
}

const MAX_LIVE = 4;
const GROWTHS = 2;

export class BackedUpVolume {
  readonly #driver: CsiDriver;
  readonly #repository: DirectoryRepository;
  readonly #runtime: RuntimeDirectory;
  readonly #points: Point[] = [];
  readonly #counts = { delta: 0, grown: 0, compacted: 0 };

  private constructor(
    private readonly options: BackedUpVolumeOptions,
    private readonly volume: HeldVolume,
    repository: DirectoryRepository,
    runtime: RuntimeDirectory,
  ) {
    this.#driver = new CsiDriver(options.socketPath, new AbortController().signal);
    this.#repository = repository;
    this.#runtime = runtime;
  }

  static async begin(options: BackedUpVolumeOptions): Promise<BackedUpVolume> {
    const { orchestrator, name, sizeBytes, use, directory } = options;
    mkdirSync(directory, { recursive: true });
    const volume = await orchestrator.create(name, { sizeBytes });
    await orchestrator.bringUp(volume);
    use.prepare(volume.targetPath);
    const repository = await DirectoryRepository.open(join(directory, 'backups'), { create: true });
    const runtime = await openRuntime(join(directory, 'runtime'));
    return new BackedUpVolume(options, volume, repository, runtime);
  }

  get incrementalBackups(): number {
    return this.#counts.delta;
  }

  async live(snapshots: number): Promise<void> {
    const { random } = this.options;
    for (let count = 0; count < snapshots; count += 1) {
      if (this.#counts.grown < GROWTHS && random.below(12) === 0) await this.grow();
      const point = await this.take();
      const older = this.#points.filter(({ isLive, backup }) => isLive && backup === null);
      if (random.below(4) > 0) await this.backUp(point);
      else if (random.below(2) === 0) await this.backUp(random.pick(older));
      while (this.#live().length > MAX_LIVE || (this.#live().length > 0 && random.below(3) > 0)) {
        await this.delete(random.pick(this.#live()));
      }
      if (random.below(10) === 0) await this.prune(3 + random.below(5), random.below(2) === 0 ? 2 : undefined);
      if (random.below(10) === 0) await this.compact();
    }
  }

  /** Changes the volume, and takes a snapshot of it. */
  async take(): Promise<Point> {
    const { use, random, orchestrator, directory, name } = this.options;
    const device = this.volume.targetPath;
    use.change(device, random);
    const number = this.#points.length + 1;
    const snapshotId = await orchestrator.snapshot(this.volume, `${name}-${number}`);
    const truth = join(directory, `truth-${number}.raw`);
    execFileSync('cp', ['--sparse=always', device, truth]);
    const point = { snapshotId, truth, isLive: true, backup: null };
    this.#points.push(point);
    return point;
  }

  async delete(point: Point): Promise<void> {
    await this.options.orchestrator.deleteSnapshot(point.snapshotId);
    point.isLive = false;
  }

  async deleteAll(): Promise<void> {
    for (const point of this.#live()) await this.delete(point);
  }

  async grow(): Promise<void> {
    const { orchestrator, growthBytes } = this.options;
    const { targetPath } = this.volume;
    const sizeBytes = sizeOf(targetPath) + growthBytes;
    await orchestrator.expand(this.volume, sizeBytes);
    if (sizeOf(targetPath) < sizeBytes) await orchestrator.nodeExpand(this.volume);
    assert.equal(sizeOf(targetPath), sizeBytes, 'the device has grown');
    this.#counts.grown += 1;
  }

  async backUp(point: Point): Promise<Backup> {
    const { backup } = await backUp({
      driver: this.#driver,
      runtime: this.#runtime,
      snapshotId: point.snapshotId,
      volumeId: null,
      repository: this.#repository,
      base: 'auto',
      grainBytes: BigInt(this.options.random.pick([512, 4096, 65536])),
      compression: this.options.random.pick([null, 'zstd'] as const),
      signal: new AbortController().signal,
      observer: { onProgress: () => undefined, onNotice: (text) => console.log(`# ${text}`) },
    });
    const { base, volume, reason } = backup.manifest;
    assert.equal(volume.sizeBytes, BigInt((await stat(point.truth)).size), 'the size of the image');
    if (base !== null) this.#counts.delta += 1;
    assert.ok(base !== null || reason !== null, 'a full backup that nobody asked for has a reason');
    point.backup = backup;
    return backup;
  }

  /** A backup, and one of the next snapshot, whose base is the first one's. */
  async backUpFromDeleted(): Promise<void> {
    const base = await this.take();
    await this.backUp(base);
    await this.deleteAll();
    const { manifest } = await this.backUp(await this.take());
    assert.equal(manifest.base?.snapshotId, base.snapshotId, manifest.reason ?? '');
  }

  /** Every backup against what the device held, and each image's own tables. */
  async check(): Promise<void> {
    for (const { backup, truth } of this.#points) {
      if (backup !== null) await assertSame(truth, imagePathOf(backup));
    }
    const volume = await this.#repository.backupsOf(this.volume.id);
    assert.deepEqual(await verifyVolume(volume, { signal: new AbortController().signal }), []);
    const names = await readdir(this.#repository.location, { recursive: true });
    assert.deepEqual(
      names.filter((name) => name.includes('.partial')),
      [],
    );
  }

  /** Restores some points, picked at random, to files, and compares the bytes. */
  async restore(points: number): Promise<void> {
    const { random, directory } = this.options;
    const kept = this.#points.filter(({ backup }) => backup !== null);
    const { signal } = new AbortController();
    for (let count = 0; count < points; count += 1) {
      const { snapshotId, truth } = random.pick(kept);
      const chosen = await chooseBackup(this.#repository, { volumeId: this.volume.id, snapshotId });
      await assertIntact(chosen, { signal });
      const path = join(directory, 'restored.raw');
      await restoreToFile(chosen, { path, replace: true }, { signal });
      run('cmp', truth, path);
    }
  }

  /** Keeps the newest backups only. The newest is made full if its chain has more images than that. */
  prune(last: number, mostImages?: number): Promise<void> {
    return this.#carryOut((volume) => planPrune(volume, { last }, mostImages));
  }

  /** Makes a backup full, picked at random. */
  async compact(): Promise<void> {
    const kept = this.#points.filter(({ backup }) => backup !== null);
    if (kept.length === 0) return;
    const { snapshotId } = this.options.random.pick(kept);
    await this.#carryOut((volume) => planCompact(volume, snapshotId));
    assert.equal(this.#points.find((point) => point.snapshotId === snapshotId)?.backup?.manifest.base, null);
    this.#counts.compacted += 1;
  }

  async #carryOut(planOf: (volume: VolumeBackups) => PrunePlan): Promise<void> {
    const { signal } = new AbortController();
    const lock = await this.#repository.lock(this.volume.id);
    try {
      const plan = planOf(await this.#repository.backupsOf(this.volume.id));
      await prune(this.#repository, plan, { signal });
    } finally {
      lock.release();
    }
    const { backups } = await this.#repository.backupsOf(this.volume.id);
    for (const point of this.#points) {
      const left = backups.find(({ manifest }) => manifest.snapshot.id === point.snapshotId);
      point.backup = left ?? null;
    }
    const left = this.#points.filter(({ backup }) => backup !== null).length;
    assert.equal(left, backups.length, 'every backup is one of a snapshot of the history');
  }

  /** Takes the volume, its snapshots and the files away. */
  async end(): Promise<void> {
    const { orchestrator, directory } = this.options;
    await this.deleteAll();
    await orchestrator.takeDown(this.volume);
    await orchestrator.delete(this.volume);
    assert.deepEqual(await orchestrator.volumeIds(), [], 'no temporary volume is left');
    this.#driver.close();
    await rm(directory, { recursive: true });
  }

  toString(): string {
    const { delta, grown, compacted } = this.#counts;
    return `${this.#points.length} snapshots, ${delta} incremental backups, grown ${grown} times, ${compacted} compactions`;
  }

  #live(): Point[] {
    return this.#points.filter(({ isLive }) => isLive);
  }
}

/**
 * Snapshots of a driver that retains that many deleted ones of a volume as bases: so many at random, three times,
 * and in between a base that was deleted and one that has expired.
 */
export async function proveBackups(
  options: BackedUpVolumeOptions,
  retained: number,
  [first, second, third] = [11, 8, 4],
): Promise<void> {
  const volume = await BackedUpVolume.begin(options);
  await volume.live(first);
  await volume.backUpFromDeleted();
  await volume.grow();
  await volume.live(second);
  for (let count = 0; count <= retained; count += 1) {
    await volume.take();
    await volume.deleteAll();
  }
  const { manifest: full } = await volume.backUp(await volume.take());
  assert.equal(full.method, 'full', 'all bases have expired');
  assert.match(full.reason ?? '', /BLOCKDELTA_RETAINED_BASES_COUNT/);

  await volume.live(third);
  console.log(`# ${volume}`);
  await volume.check();
  await volume.restore(Math.ceil(first / 2));
  await volume.compact();
  await volume.prune(4);
  await volume.check();
  await volume.end();
}
