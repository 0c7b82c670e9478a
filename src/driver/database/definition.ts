/**
 * The definition of a database (its file, its schema, its name in messages), and the translation of SQLite's failures into
 * errors that tell an operator the file, the finding and the remedy.
 */
import { CsiError, errorCode } from '../../base/errors.js';

export interface DatabaseDefinition {
  /** The name of the database in messages, such as 'the catalogue'. */
  label: string;
  file: string;
  /** What to do when the file is damaged or is not this database; follows a semicolon in messages. */
  remedy: string;
  /** Schema steps; each leads from one PRAGMA user_version to the next. */
  steps: readonly string[];
  /** How long to wait for another connection's lock. */
  lockTimeoutMs: number;
}

type Named = Pick<DatabaseDefinition, 'label' | 'file' | 'remedy'>;

/** FAILED_PRECONDITION: the file is damaged, or is not this database. */
export function damaged({ label, file, remedy }: Named, found: string, cause?: unknown): CsiError {
  return CsiError.failedPrecondition(`${label} ${file} ${found}; ${remedy}`, { cause });
}

/** FAILED_PRECONDITION: another process owns it. */
export function inUse({ label, file }: Pick<Named, 'label' | 'file'>, options?: ErrorOptions): CsiError {
  return CsiError.failedPrecondition(
    `${label} ${file} is in use by another process: one plugin serves a state directory`,
    options,
  );
}

/** Translates the failure of a statement. CsiError.from translates a failure that does not concern the file. */
export function explainFailure(definition: Named, thrown: unknown): CsiError {
  if (thrown instanceof CsiError) return thrown;
  const { label, file } = definition;
  const code = errorCode(thrown) ?? '';
  const options = { cause: thrown };
  if (isFull(thrown)) {
    return CsiError.resourceExhausted(
      `no space left for ${label} ${file}: free some in its directory; calls that free space still work`,
      options,
    );
  }
  if (code.startsWith('SQLITE_BUSY')) {
    return inUse(definition, options);
  }
  if (code === 'SQLITE_NOTADB') return damaged(definition, 'is not an SQLite database', thrown);
  if (code.startsWith('SQLITE_CORRUPT')) return damaged(definition, 'is damaged', thrown);
  if (/^SQLITE_(?:CANTOPEN|IOERR|READONLY|PERM)/.test(code)) {
    return CsiError.failedPrecondition(
      `${label} ${file} cannot be read or written (${code}): check the disk, its mount and the permissions`,
      options,
    );
  }
  return CsiError.from(thrown);
}

/** SHMSIZE: the log's index, which is created when a database is opened, could not grow. */
const FULL = ['SQLITE_FULL', 'SQLITE_IOERR_SHMSIZE', 'ENOSPC', 'EDQUOT'];

export function isFull(thrown: unknown): boolean {
  return FULL.includes(errorCode(thrown) ?? '');
}
