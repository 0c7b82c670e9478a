/**
 * Volumes whose clone outlasted the freeze that it may take. Callers repeat what was aborted for ever, and each time
 * their writers would stand still for nothing: the volume is refused, without a freeze, until its file has fewer
 * extents, the freeze may take longer, or an hour has passed. Knows nothing but the last failure of each volume, and
 * nothing after a start.
 */
import { CsiError } from '../../../base/errors.js';
import type { NativeRunner } from '../../native/pool.js';
import type { FreezeRequest as Whole } from '../freezing.js';

type FreezeRequest = Pick<Whole, 'freezeLimitMs'>;

const AGAIN_MS = 3_600_000;
/** The extents of a volume in use change all the time. */
const FEWER = { times: 9n, of: 10n };
/** Two calls with the same timeout do not have the same time left. */
const LONGER_MS = 1000n;
/** Beyond, the oldest is forgotten. */
const MAX_REMEMBERED = 1024;

export interface LongClone {
  extents: bigint;
  allowedMs: bigint;
  at: number;
}

interface Source {
  volumeId: string;
  sourcePath: string;
}

export class LongClones {
  readonly #found = new Map<string, LongClone>();

  constructor(
    private readonly native: NativeRunner,
    private readonly now: () => number = Date.now,
  ) {}

  /** Its last failure; null: it has none, or its next copy is tried. */
  find(volumeId: string): LongClone | null {
    const found = this.#found.get(volumeId);
    return found === undefined || this.now() - found.at >= AGAIN_MS ? null : found;
  }

  /** FAILED_PRECONDITION if the clone would not end in time again. */
  async assertShort({ volumeId, sourcePath }: Source, freezing: FreezeRequest): Promise<void> {
    const found = this.find(volumeId);
    if (found === null) return;
    const { extents } = await this.native.run('countExtents', { path: sourcePath }, [volumeId]);
    const isFewer = extents * FEWER.of < found.extents * FEWER.times;
    const isLonger = freezing.freezeLimitMs > found.allowedMs + LONGER_MS;
    if (isFewer || isLonger) {
      this.#found.delete(volumeId);
      return;
    }
    throw CsiError.failedPrecondition(
      `the last copy of volume ${volumeId}, whose file has ${extents} extents, was not complete after its file system ` +
        `had been frozen for as long as it may be (${Number(found.allowedMs) / 1000} s); restore it from a copy ` +
        'that has fewer extents, raise BLOCKDELTA_FREEZE_LIMIT_SECONDS and the timeout of the caller, or unmount it ' +
        'for the copy; it is tried again an hour after that failure',
    );
  }

  async remember({ volumeId, sourcePath }: Source, freezing: FreezeRequest): Promise<void> {
    const { extents } = await this.native.run('countExtents', { path: sourcePath }, [volumeId]);
    this.#found.delete(volumeId);
    const [oldest] = this.#found.keys();
    if (this.#found.size >= MAX_REMEMBERED && oldest !== undefined) this.#found.delete(oldest);
    this.#found.set(volumeId, { extents, allowedMs: freezing.freezeLimitMs, at: this.now() });
  }
}
