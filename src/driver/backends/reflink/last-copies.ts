/**
 * How the last snapshot or clone of each volume went, if the operator must know of it: another program had frozen the volume,
 * or the freeze took so long that the next copy may fail. A restart forgets all of it.
 *
 * A volume whose copy took longer than its freeze may last is refused, without a freeze, until its file has fewer extents,
 * the freeze may last longer, or an hour has passed: callers repeat an aborted copy for ever, and the writers would stand
 * still each time for nothing.
 */
import { readFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { CsiError } from '../../../base/errors.js';
import type { NativeRunner } from '../../native/pool.js';
import type { LongCopy, StorageCondition } from '../backend.js';
import type { FreezeRequest as Whole } from '../freezing.js';
import type { SourceVolume } from './freeze-failures.js';

type FreezeRequest = Pick<Whole, 'freezeLimitMs'>;

const AGAIN_MS = 3_600_000;
/** A small difference does not count: the extents of a volume in use change all the time. */
const FEWER = { times: 9n, of: 10n };
/** A smaller difference does not count: two calls with the same timeout do not have the same time left. */
const LONGER_MS = 1000n;
/** A freeze that takes more than half of its limit is reported: extents only become more. */
const NEARLY = 2n;
/** Beyond this number the oldest copy is forgotten, because deleted volumes leave their copies here. */
const MAX_REMEMBERED = 1024;
const NS_PER_MS = 1_000_000n;

/** The writes and written sectors in /sys/block/NAME/stat. Skips the reads before them, which go on during a freeze. */
const COUNTERS = /^\s*(?:\d+\s+){4}(\d+)\s+\d+\s+(\d+)/;

/** The source of a copy: the volume's file, and the device and file system to flush and freeze. */
export interface CopySource extends SourceVolume {
  sourcePath: string;
  /** A mount point of its file system; null if it is not mounted writable. */
  freezePath: string | null;
}

type File = Pick<CopySource, 'volumeId' | 'sourcePath'>;

interface LastCopy {
  at: number;
  long: LongCopy | null;
  /** Write counters of the device when another program held the volume frozen; null if none did. */
  frozenAt: { loopPath: string; written: string } | null;
}

export class LastCopies {
  readonly #last = new Map<string, LastCopy>();

  constructor(
    private readonly native: NativeRunner,
    private readonly now: () => number = Date.now,
  ) {}

  /** FAILED_PRECONDITION if a copy would again not end in time. */
  async assertShort(file: File, freezing: FreezeRequest): Promise<void> {
    const { longCopy } = this.#stillLong(file.volumeId);
    if (longCopy === undefined || longCopy.extents === null) return;
    const { allowedMs } = longCopy;
    const extents = await this.#extents(file);
    const isFewer = extents * FEWER.of < longCopy.extents * FEWER.times;
    const isLonger = freezing.freezeLimitMs > allowedMs + LONGER_MS;
    if (isFewer || isLonger) {
      this.#last.delete(file.volumeId);
      return;
    }
    throw CsiError.failedPrecondition(
      `the last copy of volume ${file.volumeId}, whose file has ${extents} extents, was not complete after its file ` +
        `system had been frozen for as long as it may be (${Number(allowedMs) / 1000} s); restore it from a copy ` +
        'that has fewer extents, raise BLOCKDELTA_FREEZE_LIMIT_SECONDS and the timeout of the caller, or unmount it ' +
        'for the copy; it is tried again an hour after that failure',
    );
  }

  /** Records a copy that was given up because it did not end within its freeze. */
  async outlasted(file: File, { freezeLimitMs }: FreezeRequest): Promise<void> {
    const long = { extents: await this.#extents(file), allowedMs: freezeLimitMs };
    this.#remember(file.volumeId, { at: this.now(), long, frozenAt: null });
  }

  /**
   * Records a copy, or several at one point in time, that succeeded.
   *
   * @param frozenNs how long the plugin itself froze a volume; 0 if all that are mounted were frozen already
   */
  async succeeded(sources: readonly CopySource[], frozenNs: bigint, { freezeLimitMs }: FreezeRequest): Promise<void> {
    const isLong = sources.length === 1 && (frozenNs * NEARLY) / NS_PER_MS > freezeLimitMs;
    const long = isLong ? { extents: null, allowedMs: freezeLimitMs } : null;
    for (const { volumeId, loopPath, freezePath } of sources) {
      const isFrozen = frozenNs === 0n && loopPath !== null && freezePath !== null;
      const written = isFrozen ? await writtenTo(loopPath) : null;
      const frozenAt = isFrozen && written !== null ? { loopPath, written } : null;
      this.#remember(volumeId, { at: this.now(), long, frozenAt });
    }
  }

  /** The findings that still hold. */
  async condition(volumeId: string): Promise<Pick<StorageCondition, 'longCopy' | 'frozenForMs'>> {
    const long = this.#stillLong(volumeId);
    const last = this.#last.get(volumeId);
    if (last === undefined || last.frozenAt === null) return long;
    const { loopPath, written } = last.frozenAt;
    if ((await writtenTo(loopPath)) === written) {
      return { ...long, frozenForMs: this.now() - last.at };
    }
    last.frozenAt = null;
    return long;
  }

  #stillLong(volumeId: string): Pick<StorageCondition, 'longCopy'> {
    const { at = 0, long = null } = this.#last.get(volumeId) ?? {};
    if (long === null) return {};
    const isTriedAgain = long.extents !== null && this.now() - at >= AGAIN_MS;
    return isTriedAgain ? {} : { longCopy: long };
  }

  async #extents({ volumeId, sourcePath }: File): Promise<bigint> {
    return (await this.native.run('countExtents', { path: sourcePath }, [volumeId])).extents;
  }

  #remember(volumeId: string, last: LastCopy): void {
    this.#last.delete(volumeId);
    if (last.long !== null || last.frozenAt !== null) this.#last.set(volumeId, last);
    const [oldest] = this.#last.keys();
    if (this.#last.size > MAX_REMEMBERED && oldest !== undefined) this.#last.delete(oldest);
  }
}

/** A text that changes with each write and with each attachment of the device; null if sysfs does not tell. */
async function writtenTo(loopPath: string): Promise<string | null> {
  const directory = `/sys/block/${basename(loopPath)}`;
  const [stat, backing] = await Promise.all(
    ['stat', 'loop/backing_file'].map((name) => readFile(`${directory}/${name}`, 'utf8').catch(() => '')),
  );
  const [, writes, sectors] = COUNTERS.exec(stat ?? '') ?? [];
  return writes === undefined || backing === '' ? null : `${writes} ${sectors} ${backing}`;
}
