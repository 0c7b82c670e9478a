/**
 * A store of objects, such as a bucket: it has no locks and no renaming, and what a killed client has left of an object may stand
 * under its name. A list that begins after an object was put, or removed, shows it, or does not.
 */
import { CsiError, StatusCode } from '../../base/errors.js';

export interface ObjectStore {
  /** Its name for people; those of its objects begin with it. */
  readonly location: string;

  /** The sizes of all objects below the directory, by their names in it; '' is the whole store. */
  list(directory: string): Promise<ReadonlyMap<string, bigint>>;

  /** Throws NOT_FOUND if there is no such object, FAILED_PRECONDITION if it has more bytes than `maxBytes`. */
  readText(name: string, maxBytes: number): Promise<string>;

  /** Puts a file of this machine there. Replaces an object of that name. */
  put(name: string, path: string): Promise<void>;

  /** Throws StoreError if what is there is not what the file has. Both have the same last part of their names. */
  compare(name: string, path: string): Promise<void>;

  /** Resolves, too, if there is no such object. */
  remove(name: string): Promise<void>;
}

/** A store that could not do what was asked, because it cannot be reached or refuses. */
export class StoreError extends CsiError {
  constructor(message: string, cause?: unknown) {
    super(StatusCode.UNAVAILABLE, message, { cause });
  }
}
