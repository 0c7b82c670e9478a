/**
 * How one request finds the allocated ranges of a snapshot, or the differences between two snapshots, and what it scans
 * instead when a stored list cannot be used. Knows no pool.
 */
import { bestEffort, unreported } from '../../base/best-effort.js';
import type { SystemError } from '../../base/errors.js';
import type { ScanSource } from '../native/addon.js';
import type { ChangeListSource } from '../native/change-list-addon.js';

export interface SnapshotScan {
  readonly source: ScanSource;
  /** Sizes of the two snapshots in the pool; null if the pool has no size of the base, or there is no base. */
  readonly targetBytes: bigint;
  readonly baseBytes: bigint | null;
  readonly storedLists: number;
  /** Whether a stored list would have made the scan faster. */
  readonly wantsList: boolean;
  /**
   * Another scan with the same answer, after this failure; null if there is none, so that the failure stands. Throws the
   * reason if nothing sound is left. Everything sent so far stands, because it came from verified lists.
   *
   * @param onRefused called when a stored list is wrong or missing, and was discarded
   */
  instead(failure: SystemError, onRefused: () => void): Promise<SnapshotScan | null>;
}

/** A scan that reads the snapshots themselves. */
export function directScan(
  source: ScanSource,
  sizes: Pick<SnapshotScan, 'targetBytes'> & Partial<Pick<SnapshotScan, 'baseBytes' | 'wantsList'>>,
): SnapshotScan {
  return {
    baseBytes: null,
    wantsList: false,
    ...sizes,
    source,
    storedLists: 0,
    instead: async () => null,
  };
}

interface ListScan extends Pick<SnapshotScan, 'targetBytes' | 'baseBytes'> {
  source: ChangeListSource;
  discard(path: string): Promise<void>;
  /** A scan of the snapshots themselves; null if the base is gone. */
  direct: SnapshotScan | null;
  /** Makes a scan from the lists that are left. */
  again(): Promise<SnapshotScan>;
}

/**
 * A scan of stored lists. A wrong or missing list is discarded. A list that could not be read this time, for example because
 * too many files are open, stays: it may be all that is left of its base.
 */
export function listScan({ source, discard, direct, again, ...sizes }: ListScan): SnapshotScan {
  return {
    ...sizes,
    source,
    storedLists: source.paths.length,
    wantsList: false,
    instead: async ({ code, path }, onRefused) => {
      const isList = source.paths.includes(path);
      const isWrong = code === 'LIST_INVALID' || (isList && code === 'ENOENT');
      if (isWrong) {
        // If this fails, the next reader of the list refuses it again.
        await bestEffort(() => discard(path), unreported);
        onRefused();
      } else if (!isList) {
        return null;
      }
      if (direct !== null) return direct;
      return isWrong ? again() : null;
    },
  };
}
