/**
 * How the list of a snapshot, or of what differs between two, is made for one request, and what is scanned instead when
 * a stored list cannot be used. Knows no pool.
 */
import { bestEffort, unreported } from '../../base/best-effort.js';
import type { SystemError } from '../../base/errors.js';
import type { ScanSource } from '../native/addon.js';
import type { ChangeListSource } from '../native/change-list-addon.js';

export interface SnapshotScan {
  readonly source: ScanSource;
  /** Sizes that the pool has of the two; null: it has no size of the base, or there is no base. */
  readonly targetBytes: bigint;
  readonly baseBytes: bigint | null;
  readonly storedLists: number;
  /** Whether a stored list would have made it faster. */
  readonly wantsList: boolean;
  /**
   * Another way to the same answer, after that failure; null: there is none, the failure stands. Throws the reason if
   * nothing sound is left. What was sent so far stands, because it came from lists that were verified.
   *
   * @param onRefused called when a stored list is wrong or missing, and was discarded
   */
  instead(failure: SystemError, onRefused: () => void): Promise<SnapshotScan | null>;
}

/** Of the snapshots themselves. */
export function directScan(
  source: ScanSource,
  sizes: Pick<SnapshotScan, 'targetBytes'> & Partial<Pick<SnapshotScan, 'baseBytes' | 'wantsList'>>,
): SnapshotScan {
  return {
    ...{ baseBytes: null, wantsList: false, ...sizes },
    ...{ source, storedLists: 0, instead: async () => null },
  };
}

interface ListScan extends Pick<SnapshotScan, 'targetBytes' | 'baseBytes'> {
  source: ChangeListSource;
  discard(path: string): Promise<void>;
  /** Of the snapshots themselves; null: the base is gone. */
  direct: SnapshotScan | null;
  /** With what other lists there are. */
  again(): Promise<SnapshotScan>;
}

/**
 * Of stored lists. One that is wrong or missing is discarded; one that could not be read this time, as when too many
 * files are open, may be all that is left of its base, and stays.
 */
export function listScan({ source, discard, direct, again, ...sizes }: ListScan): SnapshotScan {
  return {
    ...sizes,
    ...{ source, storedLists: source.paths.length, wantsList: false },
    instead: async ({ code, path }, onRefused) => {
      const isList = source.paths.includes(path);
      const isWrong = code === 'LIST_INVALID' || (isList && code === 'ENOENT');
      if (isWrong) {
        // Whoever reads the list next refuses it again.
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
