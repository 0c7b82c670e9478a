/**
 * The calls of one database on the thread that owns it: opened at the first one, with what a full disk
 * and a growing log ask for around each. Knows no tables.
 *
 * Where the directory is full, calls that free space are given the reserve, and calls that take space
 * fail until it has been made again: they must not eat what others free space with.
 */
import { CsiError, StatusCode } from '../base/errors.js';
import { type DatabaseUse, isFull } from './database-use.js';
import type { KeptDatabase } from './kept-database.js';
import { checkpoint, openSound, restartLog } from './sound-database.js';
import { SpaceReserve } from './space-reserve.js';
import {
  answer,
  type DatabaseAnswer,
  type DatabaseEvent,
  type DatabaseTask,
} from './thread-task.js';

/**
 * What a call does with space: `reads` none, `frees` records that something is going, `takes` begins
 * something new, `writes` is all else.
 */
export type CallKind = 'reads' | 'writes' | 'takes' | 'frees';

/** One for each call, by its arguments where they decide; the compiler refuses one too few. */
export type CallKinds<T> = Readonly<Record<keyof T, KindOfCall>>;

type KindOfCall = CallKind | ((...args: readonly unknown[]) => CallKind);

/**
 * The log and the file grow by less than half of this while space is freed, however long that takes:
 * the log is used over again after CHECKPOINT_PAGES.
 */
const RESERVE_BYTES = 2 << 20;

/** Of every service beside the calls of its database. */
export const CLOSE = 'close';
export const TIDY = 'tidy';

export class DatabaseService<T extends object> {
  readonly #reserve: SpaceReserve;
  #open: { database: KeptDatabase; calls: T } | null = null;
  #events: DatabaseEvent[] = [];

  constructor(
    private readonly use: DatabaseUse,
    private readonly kinds: CallKinds<T>,
    private readonly callsOf: (database: KeptDatabase) => T,
  ) {
    this.#reserve = new SpaceReserve(`${use.file}-reserve`, RESERVE_BYTES);
  }

  perform({ method, args }: DatabaseTask): DatabaseAnswer {
    const given = answer(() => this.#perform(method, args), this.use);
    const events = this.#events;
    this.#events = [];
    return { ...given, events };
  }

  #perform(method: string, args: readonly unknown[]): unknown {
    if (method === CLOSE) return this.#close();
    const { database, calls } = this.#opened();
    if (method === TIDY) return this.#tidy(database);
    const call = calls[method as keyof T] as (...values: unknown[]) => unknown;
    const kind: KindOfCall = this.kinds[method as keyof T];
    const does = typeof kind === 'function' ? kind(...args) : kind;
    return this.#run(database, does, () => call(...args));
  }

  #run(database: KeptDatabase, kind: CallKind, call: () => unknown): unknown {
    if (kind === 'takes') this.#assertRoom();
    try {
      return call();
    } catch (thrown) {
      if (kind !== 'frees' || !isFull(thrown)) throw thrown;
      return this.#withReserve(database, thrown, call);
    }
  }

  /** A log that is written from its beginning again needs no space; one that is empty needs the reserve. */
  #withReserve(database: KeptDatabase, full: unknown, call: () => unknown): unknown {
    if (restartLog(database)) {
      try {
        return call();
      } catch (thrown) {
        if (!isFull(thrown)) throw thrown;
      }
    }
    if (!this.#reserve.giveUp()) throw full;
    this.#tell('warn', 'its directory is full: gave up the reserve, so that space can be freed');
    return call();
  }

  #assertRoom(): void {
    if (this.#reserve.isThere()) return;
    if (!this.#reserve.restore()) {
      throw CsiError.resourceExhausted(
        `no space left for ${this.use.label} ${this.use.file}: nothing new is begun until its directory has ` +
          `${(RESERVE_BYTES * 3) >> 20} MiB free; unpublishing, unstaging and deleting go on`,
      );
    }
    this.#tell('info', 'its directory has room again: made the reserve anew');
  }

  #opened(): { database: KeptDatabase; calls: T } {
    if (this.#open === null) {
      const database = this.#openEvenIfFull();
      this.#open = { database, calls: this.callsOf(database) };
      if (!this.#reserve.restore()) {
        this.#tell(
          'warn',
          'its directory has no room for the reserve that frees space on a full disk',
        );
      }
    }
    return this.#open;
  }

  #openEvenIfFull(): KeptDatabase {
    try {
      return openSound(this.use);
    } catch (thrown) {
      const isOutOfSpace =
        thrown instanceof CsiError && thrown.code === StatusCode.RESOURCE_EXHAUSTED;
      if (!isOutOfSpace || !this.#reserve.giveUp()) throw thrown;
      this.#tell('warn', 'its directory is full: gave up the reserve to open it');
      return openSound(this.use);
    }
  }

  /** An empty log gives its blocks back, which are needed where the directory is full. */
  #tidy(database: KeptDatabase): void {
    if (this.#reserve.restore()) checkpoint(database);
  }

  #close(): void {
    const open = this.#open;
    this.#open = null;
    if (open === null) return;
    checkpoint(open.database);
    open.database.close();
  }

  #tell(level: DatabaseEvent['level'], what: string): void {
    const { label, file } = this.use;
    this.#events.push({ level, message: `${label} ${file}: ${what}` });
  }
}

/** For a caller without a thread: the calls as they are. */
export function openDirectly<T extends object>(
  use: DatabaseUse,
  callsOf: (database: KeptDatabase) => T,
): T & { close(): void } {
  const database = openSound(use);
  return { ...callsOf(database), close: () => database.close() };
}
