/**
 * The thread that owns the catalogue's database. Errors cross threads as data.
 */

import { workerData } from 'piscina';
import { CsiError, errorCode, type StatusCode } from '../errors.js';
import type { Catalogue } from './records.js';
import { openSqliteCatalogue, type SqliteCatalogue } from './sqlite-catalogue.js';

export interface CatalogueTask {
  method: keyof Catalogue | 'close';
  args: unknown[];
}
export type CatalogueAnswer =
  | { ok: true; value: unknown }
  | { ok: false; code: StatusCode; message: string; cause: string };

let catalogue: SqliteCatalogue | null = null;

export default function perform(task: CatalogueTask): CatalogueAnswer {
  try {
    catalogue ??= openSqliteCatalogue((workerData as { file: string }).file);
    const call = catalogue[task.method] as (...args: unknown[]) => unknown;
    return { ok: true, value: call(...task.args) };
  } catch (thrown) {
    return failure(thrown);
  }
}

function failure(thrown: unknown): CatalogueAnswer {
  const cause = thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown);
  if (errorCode(thrown) === 'SQLITE_FULL') {
    const error = CsiError.resourceExhausted(
      'no space left for the catalogue in the state directory',
    );
    return { ok: false, code: error.code, message: error.message, cause };
  }
  const error = CsiError.from(thrown);
  return { ok: false, code: error.code, message: error.message, cause };
}
