/**
 * Many increments under load: programs write to a volume while snapshots of it are taken. The list from the snapshot before, and the one
 * from a random older snapshot, live or deleted, is each applied to a copy of its base, and the whole copy is compared with the
 * restored snapshot. Knows nothing of what the programs write.
 */
import { constants } from 'node:fs';
import { copyFile, type FileHandle, mkdir, open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { StatusCode } from '../../../base/errors.js';
import { readFully } from '../block-content.js';
import { type Check, type CheckContext, checksOf, OF_LISTS } from '../check.js';
import { ConformanceFailure, expect } from '../failure.js';
import { allocatedOf, deltaOf } from '../list-request.js';
import { readList, readToEnd } from '../lists.js';
import type { Snapshot, Volume } from '../objects.js';
import type { AccessType } from '../options.js';
import { OverReport } from '../oracle.js';
import { type Entry, totalBytes } from '../ranges.js';
import { withRestored } from '../restored-snapshot.js';
import { SoakLoad } from '../soak-load.js';

const MIB = 1 << 20;
const SECTOR_BYTES = 512;
/** What an increment changes at least; the load writes more than that, because it also overwrites. */
const CHANGED_BYTES = MIB;
const WRITTEN_BYTES = 4 * MIB;
const GROWTH_BYTES = 16 * MIB;
/** Older snapshots of which a copy is kept. */
const OLDER = 4;
const GONE: readonly number[] = [StatusCode.NOT_FOUND, StatusCode.FAILED_PRECONDITION];

/** The shortest and the longest time between two snapshots. */
type Pauses = readonly [number, number];

/** What a backup program has of a snapshot: a file with its bytes. */
interface Copy {
  readonly snapshot: Snapshot;
  readonly path: string;
  readonly sizeBytes: number;
  isDeleted: boolean;
}

class Soak {
  readonly #older: Copy[] = [];
  readonly #overReport = new OverReport();
  readonly #directory: string;
  readonly #started = performance.now();
  /** Whether bases are deleted before they are asked for: until the driver refuses one. */
  #deletes = true;
  #grows: boolean;
  #copies = 0;
  #increments = 0;
  #comparedBytes = 0;
  #missedBytes = 0;

  constructor(
    private readonly context: CheckContext,
    private readonly volume: Volume,
    private readonly access: AccessType,
  ) {
    this.#grows = context.advertised.expansion.has('ONLINE');
    this.#directory = join(context.options.workDirectory, context.volumes.name());
  }

  async run(increments: number, [shortest, longest]: Pauses): Promise<void> {
    const { context, volume, access } = this;
    const { random } = context;
    await mkdir(this.#directory, { recursive: true });
    let load: SoakLoad | null = null;
    try {
      load = await SoakLoad.start({
        path: await context.volumes.publish(volume),
        access,
        seed: context.options.seed,
        sizeBytes: () => volume.sizeBytes,
        scratch: this.#directory,
      });
      let last = await this.#first(load);
      while (this.#increments < increments) {
        context.signal.throwIfAborted();
        await load.keepWriting(WRITTEN_BYTES, shortest + random.below(longest - shortest));
        if (this.#increments % 2 === 1) await this.#discardOrGrow(load);
        last = await this.#next(last);
        this.#increments += 1;
      }
    } finally {
      this.#report();
      await load?.stop();
      await rm(this.#directory, { recursive: true, force: true });
    }
    await context.volumes.unpublish(volume);
  }

  /** The first copy is made of the ranges that are allocated, as a full backup is. */
  async #first(load: SoakLoad): Promise<Copy> {
    await load.keepWriting(WRITTEN_BYTES, 0);
    const snapshot = await this.context.volumes.snapshot(this.volume);
    const { entries } = await readList(this.context, allocatedOf(snapshot));
    const path = this.#newPath();
    const sizeBytes = this.#sizeOf(snapshot);
    await (await open(path, 'wx')).close();
    await this.#reading(snapshot, (device) => this.#apply('an empty volume', { path, sizeBytes, device, entries }));
    return { snapshot, path, sizeBytes, isDeleted: false };
  }

  /** Takes a snapshot while the load writes, and judges the lists from the one before and from an older one. */
  async #next(last: Copy): Promise<Copy> {
    const { context } = this;
    const snapshot = await context.volumes.snapshot(this.volume);
    const copy = { snapshot, path: this.#newPath(), sizeBytes: this.#sizeOf(snapshot), isDeleted: false };
    const { entries } = await readList(context, deltaOf(last.snapshot, snapshot));
    const older = this.#older.length > 0 ? context.random.pick(this.#older) : null;
    const olderEntries = older === null ? null : await this.#listFrom(older, snapshot);
    await this.#reading(snapshot, async (device) => {
      await copyFile(last.path, copy.path, constants.COPYFILE_FICLONE);
      const changed = await this.#apply('the snapshot before', { ...copy, device, entries });
      expect(
        changed >= CHANGED_BYTES,
        'the load',
        `${CHANGED_BYTES} bytes that change in each increment`,
        () => `${changed}`,
      );
      if (older === null || olderEntries === null) return;
      const path = this.#newPath();
      await copyFile(older.path, path, constants.COPYFILE_FICLONE);
      const base = `${older.isDeleted ? 'a deleted' : 'an older'} snapshot`;
      await this.#apply(base, { path, sizeBytes: copy.sizeBytes, device, entries: olderEntries });
      await rm(path);
    });
    this.#older.push(last);
    if (this.#older.length > OLDER) await this.#forget(context.random.pick(this.#older));
    return copy;
  }

  /** The list from an older snapshot, which is deleted before in half of the cases; null if the driver has no such lists. */
  async #listFrom(older: Copy, snapshot: Snapshot): Promise<readonly Entry[] | null> {
    const { context } = this;
    if (this.#deletes && !older.isDeleted && context.random.below(2) === 0) {
      await context.volumes.deleteSnapshot(older.snapshot);
      older.isDeleted = true;
    }
    const list = deltaOf(older.snapshot, snapshot);
    if (!older.isDeleted) return (await readList(context, list)).entries;
    const { end, entries } = await readToEnd(context, list);
    if (end.code === StatusCode.OK) return entries;
    if (!GONE.includes(end.code)) await readList(context, list);
    context.note('the driver gives no delta from a deleted base, so live bases alone were compared');
    this.#deletes = false;
    await this.#forget(older);
    return null;
  }

  async #forget(copy: Copy): Promise<void> {
    this.#older.splice(this.#older.indexOf(copy), 1);
    if (!copy.isDeleted) await this.context.volumes.deleteSnapshot(copy.snapshot);
    await rm(copy.path);
  }

  async #discardOrGrow(load: SoakLoad): Promise<void> {
    if (this.#increments % 6 === 5 && (await this.#grow())) return;
    if ((await load.discard(this.context.random)) || (await this.#grow())) return;
    this.context.note('the volumes of this driver take no discards and do not grow while they are written to');
  }

  /** False if the volume cannot grow while it is in use; whether it has to is judged by other checks. */
  async #grow(): Promise<boolean> {
    const { context, volume } = this;
    if (!this.#grows) return false;
    try {
      await context.volumes.expand(volume, volume.sizeBytes + GROWTH_BYTES);
      return true;
    } catch (thrown) {
      if (!(thrown instanceof ConformanceFailure)) throw thrown;
      this.#grows = false;
      context.note(`the volume does not grow while it is written to: ${thrown.message}`);
      return false;
    }
  }

  /** Ids of snapshots are the driver's, and may be anything. */
  #newPath(): string {
    this.#copies += 1;
    return join(this.#directory, `copy-${this.#copies}`);
  }

  #sizeOf({ sizeBytes }: Snapshot): number {
    return sizeBytes === 0 ? this.volume.sizeBytes : sizeBytes;
  }

  #reading<T>(snapshot: Snapshot, read: (device: FileHandle) => Promise<T>): Promise<T> {
    return withRestored(this.context, snapshot, this.#sizeOf(snapshot), async (path) => {
      const device = await open(path, 'r');
      try {
        return await read(device);
      } finally {
        await device.close();
      }
    });
  }

  /** Writes the listed ranges of the device to the file, and compares both. Resolves to the bytes that the list has changed. */
  async #apply(
    base: string,
    at: { path: string; sizeBytes: number; device: FileHandle; entries: readonly Entry[] },
  ): Promise<number> {
    const { path, sizeBytes, device, entries } = at;
    const file = await open(path, 'r+');
    try {
      await file.truncate(sizeBytes);
      let differingBytes = 0;
      for (const { offset, size } of entries) {
        for await (const [now, before, start] of pairsOf(device, file, Number(offset), Number(offset + size))) {
          differingBytes += differing(now, before);
          await file.write(now, 0, now.length, start);
        }
      }
      this.#overReport.add({ differingBytes, reportedBytes: Number(totalBytes(entries)), missed: [] });
      let firstMissed: number | null = null;
      for await (const [now, copied, start] of pairsOf(device, file, 0, sizeBytes)) {
        this.#comparedBytes += now.length;
        if (now.equals(copied)) continue;
        firstMissed ??= start + now.findIndex((byte, index) => byte !== copied[index]);
        this.#missedBytes += differing(now, copied);
      }
      if (firstMissed === null) return differingBytes;
      const found = `${this.#missedBytes} bytes of sectors that differ, the first at ${firstMissed}`;
      throw new ConformanceFailure(`increment ${this.#increments + 1}, from ${base}`, 'a copy of the snapshot', found);
    } finally {
      await file.close();
    }
  }

  #report(): void {
    const { figure } = this.context;
    figure('increments', this.#increments, 'increments');
    figure('bytes compared', this.#comparedBytes, 'bytes');
    figure('bytes missed', this.#missedBytes, 'bytes');
    this.#overReport.reportFactor(this.context);
    figure('duration', (performance.now() - this.#started) / 1000, 's');
  }
}

/** The bytes of both at the same places, a part at a time. A part is valid until the next. */
async function* pairsOf(
  device: FileHandle,
  file: FileHandle,
  from: number,
  to: number,
): AsyncGenerator<[Buffer, Buffer, number]> {
  const buffers = [Buffer.alloc(Math.min(MIB, to - from)), Buffer.alloc(Math.min(MIB, to - from))] as const;
  for (let start = from; start < to; start += MIB) {
    const [ours, theirs] = buffers.map((buffer) => buffer.subarray(0, to - start)) as [Buffer, Buffer];
    await readFully(device, ours, start, to);
    await readFully(file, theirs, start, to);
    yield [ours, theirs, start];
  }
}

/** The bytes of the sectors that differ. */
function differing(ours: Buffer, theirs: Buffer): number {
  let bytes = 0;
  for (let start = 0; start < ours.length; start += SECTOR_BYTES) {
    const end = Math.min(start + SECTOR_BYTES, ours.length);
    if (ours.compare(theirs, start, end, start, end) !== 0) bytes += end - start;
  }
  return bytes;
}

/** @param increments of each kind of volume; each may take as long as one check */
export function soakChecks(increments: number, pausesMs: Pauses = [1000, 4000]): readonly Check[] {
  const soak = (access: AccessType) => async (context: CheckContext) =>
    new Soak(context, await context.volumes.create({ access }), access).run(increments, pausesMs);
  return checksOf(OF_LISTS, 'Soak: increments under load', [
    {
      id: 'soak.block',
      rule: 'SM24',
      title: 'increments of a raw block volume that is written to are complete',
      also: ['block'],
      timeouts: increments + 1,
      run: soak('block'),
    },
    {
      id: 'soak.mount',
      rule: 'SM24',
      title: 'increments of a volume with a file system that is written to are complete',
      also: ['mount'],
      timeouts: increments + 1,
      run: soak('mount'),
    },
  ]);
}
