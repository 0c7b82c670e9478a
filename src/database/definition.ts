/**
 * What a database is for, as far as whoever opens it and explains its failures has to know, and what
 * each failure of SQLite means to an operator: which file, what was found, what to do.
 */
import { CsiError, errorCode } from '../base/errors.js';

export interface DatabaseUse {
  /** Names it in messages, such as 'the catalogue'. */
  label: string;
  file: string;
  /** What to do when the file is damaged or is something else; goes behind a semicolon. */
  remedy: string;
  /** Steps from one PRAGMA user_version to the next. */
  steps: readonly string[];
  /** Whether this process alone may have it open. */
  exclusive: boolean;
  /** How long a lock of another connection is waited for. */
  lockTimeoutMs: number;
}

type Named = Pick<DatabaseUse, 'label' | 'file' | 'remedy'>;

/** FAILED_PRECONDITION: the file holds something that is not to be worked with. */
export function damaged({ label, file, remedy }: Named, found: string, cause?: unknown): CsiError {
  return CsiError.failedPrecondition(`${label} ${file} ${found}; ${remedy}`, { cause });
}

/** The failure of a statement. Total: what says nothing about the file is converted as usual. */
export function explainFailure(use: Named, thrown: unknown): CsiError {
  if (thrown instanceof CsiError) return thrown;
  const { label, file } = use;
  const code = errorCode(thrown) ?? '';
  const options = { cause: thrown };
  if (isFull(thrown)) {
    return CsiError.resourceExhausted(
      `no space left for ${label} ${file}: free some in its directory; what frees space goes on meanwhile`,
      options,
    );
  }
  if (code.startsWith('SQLITE_BUSY')) {
    return CsiError.failedPrecondition(
      `${label} ${file} is in use by another process: one plugin serves a state directory`,
      options,
    );
  }
  if (code === 'SQLITE_NOTADB') return damaged(use, 'is not a database of SQLite', thrown);
  if (code.startsWith('SQLITE_CORRUPT')) return damaged(use, 'is damaged', thrown);
  if (/^SQLITE_(?:CANTOPEN|IOERR|READONLY|PERM)/.test(code)) {
    return CsiError.failedPrecondition(
      `${label} ${file} cannot be read or written (${code}): look at the disk, its mount and the permissions`,
      options,
    );
  }
  return CsiError.from(thrown);
}

/** The second is of the index of the log, which is made when a database is opened. */
const FULL = ['SQLITE_FULL', 'SQLITE_IOERR_SHMSIZE'];

export function isFull(thrown: unknown): boolean {
  return FULL.includes(errorCode(thrown) ?? '');
}
