/**
 * Executes the calls of one database on the thread that owns it. Opens the database at the first task and handles a full disk
 * and a growing write-ahead log around each call. Knows no tables.
 *
 * When the directory is full, calls that free space may use up the space reserve. Calls that take space then fail until the
 * reserve has been restored, so that they leave the space to the calls that free space.
 */
import { workerData } from 'node:worker_threads';
import { CsiError, errorCode, StatusCode } from '../../base/errors.js';
import type { CallKind, DatabaseCall, DatabaseCalls } from './calls.js';
import type { SqliteConnection } from './connection.js';
import { type DatabaseDefinition, isFull } from './definition.js';
import { SoundDatabase } from './sound-database.js';
import { SpaceReserve } from './space-reserve.js';
import {
  answer,
  CLOSE,
  type DatabaseAnswer,
  type DatabaseEvent,
  type DatabaseFile,
  type DatabaseTask,
  IDLE,
  OPEN,
} from './thread-task.js';

/**
 * More than twice what the log and the file grow by while space is freed, however long that takes: the
 * log is rewritten from its beginning after CHECKPOINT_PAGES.
 */
const RESERVE_BYTES = 2 << 20;

type CallsOf<T> = (database: SqliteConnection) => T & DatabaseCalls<T>;

/** The function that a thread's module exports as its default. The file comes with the thread's workerData. */
export function serveDatabase<T extends object>(
  define: (file: string) => DatabaseDefinition,
  callsOf: CallsOf<T>,
): (task: DatabaseTask) => DatabaseAnswer {
  let service: DatabaseService<T> | undefined;
  return (task) => {
    service ??= new DatabaseService(define((workerData as DatabaseFile).file), callsOf);
    return service.perform(task);
  };
}

interface ServedDatabase {
  database: SoundDatabase;
  calls: ReadonlyMap<string, DatabaseCall>;
}

class DatabaseService<T extends object> {
  readonly #reserve: SpaceReserve;
  #open: ServedDatabase | null = null;
  #events: DatabaseEvent[] = [];

  constructor(
    private readonly definition: DatabaseDefinition,
    private readonly callsOf: CallsOf<T>,
  ) {
    this.#reserve = new SpaceReserve(`${definition.file}-reserve`, RESERVE_BYTES);
  }

  perform({ method, args }: DatabaseTask): DatabaseAnswer {
    const given = answer(() => this.#perform(method, args), this.definition);
    const events = this.#events;
    this.#events = [];
    return { ...given, events };
  }

  #perform(method: string, args: readonly unknown[]): unknown {
    if (method === CLOSE) return this.#close();
    const { database, calls } = this.#opened();
    if (method === OPEN) {
      return [...calls].map(([name, { kind }]) => ({ method: name, onlyReads: kind === 'reads' }));
    }
    if (method === IDLE) return this.#restoreReserve(database);
    const call = calls.get(method) as DatabaseCall<(...values: unknown[]) => unknown> | undefined;
    if (call === undefined) throw new Error(`${this.definition.label} has no call '${method}'`);
    const kind = typeof call.kind === 'function' ? call.kind(...args) : call.kind;
    return this.#run(database, kind, () => call(...args));
  }

  #run(database: SoundDatabase, kind: CallKind, work: () => unknown): unknown {
    if (kind === 'reads') return work();
    if (kind === 'takesSpace') this.#assertReserve();
    const call = (): unknown => database.change(work, (thrown) => this.#notRecorded(thrown));
    try {
      return call();
    } catch (thrown) {
      if (kind !== 'freesSpace' || !isFull(thrown)) throw thrown;
      return this.#withReserve(database, thrown, call);
    }
  }

  /** Tries again with a log rewritten from its beginning, which needs no new space. Only an empty log needs the reserve. */
  #withReserve(database: SoundDatabase, full: unknown, call: () => unknown): unknown {
    if (database.restartLog()) {
      try {
        return call();
      } catch (thrown) {
        if (!isFull(thrown)) throw thrown;
      }
    }
    if (!this.#reserve.release()) throw full;
    this.#report('warn', 'its directory is full: released the space reserve to free space');
    return call();
  }

  #assertReserve(): void {
    if (this.#reserve.isThere()) return;
    if (!this.#reserve.restore()) {
      throw CsiError.resourceExhausted(
        `no space left for ${this.definition.label} ${this.definition.file}: the plugin creates nothing new until ` +
          `its directory has ${(RESERVE_BYTES * 3) >> 20} MiB free; unpublishing, unstaging and deleting still work`,
      );
    }
    this.#report('info', 'its directory has space again: restored the space reserve');
  }

  #opened(): ServedDatabase {
    if (this.#open === null) {
      const database = this.#openEvenIfFull();
      this.#open = { database, calls: new Map(Object.entries(this.callsOf(database.connection))) };
      if (!this.#reserve.restore()) {
        this.#report('warn', 'its directory has too little space for the space reserve');
      }
    }
    return this.#open;
  }

  #openEvenIfFull(): SoundDatabase {
    try {
      return SoundDatabase.open(this.definition);
    } catch (thrown) {
      const isOutOfSpace = thrown instanceof CsiError && thrown.code === StatusCode.RESOURCE_EXHAUSTED;
      if (!isOutOfSpace || !this.#reserve.release()) throw thrown;
      this.#report('warn', 'its directory is full: released the space reserve to open it');
      return SoundDatabase.open(this.definition);
    }
  }

  /** A checkpoint empties the log, which returns its blocks to the file system, so it runs only if the reserve exists. */
  #restoreReserve(database: SoundDatabase): void {
    if (this.#reserve.restore()) database.checkpoint();
  }

  #close(): void {
    const open = this.#open;
    this.#open = null;
    open?.database.close();
  }

  #notRecorded(thrown: unknown): void {
    const code = errorCode(thrown) ?? 'unknown error';
    this.#report('warn', `its count of commits could not be written (${code}); the change is durable`);
  }

  #report(level: DatabaseEvent['level'], what: string): void {
    const { label, file } = this.definition;
    this.#events.push({ level, message: `${label} ${file}: ${what}` });
  }
}
