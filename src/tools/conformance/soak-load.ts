/**
 * Programs that write to a published volume for as long as a soak lasts, all at once, as those of a busy node do: scattered writes and
 * a log on a raw block volume; on a mounted one an archive that is unpacked again and again, a database, and files that change
 * at random. Nobody knows what the volume holds at any moment. Knows nothing of snapshots.
 */
import { execFile } from 'node:child_process';
import { mkdir, open, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { Random } from '../random.js';
import { discard, PROGRAM_PATHS } from './block-content.js';
import { ConformanceFailure, expectRoom } from './failure.js';
import { changeFiles } from './mount-content.js';

const run = promisify(execFile);
const LENGTHS = [512, 4096, 4096, 16_384, 65_536] as const;
const LOG_BYTES = 256 << 10;
const ALIGNMENT_BYTES = 512;
const DISCARD_BYTES = 1 << 20;
const ARCHIVED_FILES = 60;
const ROWS = 400;
const ROWS_AT_ONCE = 40;
const ROW_BYTES = 3000;
/** Trees, the database with its log, and files that grow take up to 20 MiB of a mounted volume. */
const SMALLEST_BYTES = { block: 8 << 20, mount: 32 << 20 };
/** Between two steps of a writer, so that the others and the snapshots get their turn. */
const PAUSE_MS = 100;

/** Does a part of the work, and resolves to the new bytes that it has written. */
type Writer = () => Promise<number>;

export interface Target {
  path: string;
  access: 'block' | 'mount';
  seed: number;
  /** Asked for again and again, because volumes grow. */
  sizeBytes(): number;
  /** A directory of the run, outside the volume. */
  scratch: string;
}

export class SoakLoad {
  readonly #writers: readonly Promise<void>[];
  #isOver = false;
  #failure: unknown = null;
  #writtenBytes = 0;

  private constructor(
    private readonly target: Target,
    writers: readonly Writer[],
    private readonly close: () => Promise<void>,
  ) {
    this.#writers = writers.map((writer) =>
      this.#repeat(writer).catch((thrown: unknown) => {
        this.#failure ??= thrown;
      }),
    );
  }

  /** Throws CheckSkipped if the volume is too small for what is written. */
  static async start(target: Target): Promise<SoakLoad> {
    expectRoom(target.sizeBytes(), SMALLEST_BYTES[target.access]);
    return target.access === 'block' ? SoakLoad.#onDevice(target) : SoakLoad.#inDirectory(target);
  }

  static async #onDevice(target: Target): Promise<SoakLoad> {
    const device = await open(target.path, 'r+');
    const [places, log] = [new Random(target.seed, 'places'), new Random(target.seed, 'log')];
    const write = async (bytes: Buffer, offset: number): Promise<number> =>
      (await device.write(bytes, 0, bytes.length, offset)).bytesWritten;
    let end = 0;
    const scattered: Writer = () => {
      const bytes = places.bytes(places.pick(LENGTHS));
      return write(bytes, placeIn(places, target.sizeBytes() - bytes.length, ALIGNMENT_BYTES));
    };
    const appended: Writer = async () => {
      if (end + LOG_BYTES > target.sizeBytes()) end = 0;
      const written = await write(log.bytes(LOG_BYTES), end);
      await device.datasync();
      end += LOG_BYTES;
      return written;
    };
    return new SoakLoad(target, [scattered, appended], () => device.close());
  }

  static async #inDirectory(target: Target): Promise<SoakLoad> {
    const { path, seed, scratch } = target;
    const archive = await makeArchive(scratch, new Random(seed, 'archive'));
    let trees = 0;
    const unpacked: Writer = async () => {
      const tree = join(path, `tree-${trees}`);
      await mkdir(tree);
      await run('tar', ['-xf', archive, '-C', tree]);
      await rm(join(path, `tree-${trees - 2}`), { recursive: true, force: true });
      trees += 1;
      // The same bytes may get the same places again, and then nothing has changed.
      return 0;
    };
    const { default: Database } = await import('better-sqlite3');
    const database = new Database(join(path, 'soak.db'));
    database.pragma('journal_mode = WAL');
    database.exec('CREATE TABLE rows (id INTEGER PRIMARY KEY, content BLOB) STRICT');
    const insert = database.prepare('INSERT OR REPLACE INTO rows VALUES (?, ?)');
    const rows = new Random(seed, 'rows');
    const insertAll = database.transaction(() => {
      for (let count = 0; count < ROWS_AT_ONCE; count += 1) insert.run(rows.below(ROWS), rows.bytes(ROW_BYTES));
    });
    const committed: Writer = async () => {
      insertAll();
      return ROWS_AT_ONCE * ROW_BYTES;
    };
    const files = new Random(seed, 'files');
    const changed: Writer = () => changeFiles(path, files, 4);
    return new SoakLoad(target, [unpacked, committed, changed], async () => {
      database.close();
    });
  }

  async #repeat(writer: Writer): Promise<void> {
    while (!this.#isOver) {
      this.#writtenBytes += await writer();
      await delay(PAUSE_MS);
    }
  }

  /** Resolves when that much more is written, and that time is over. Rejects if a writer has failed. */
  async keepWriting(bytes: number, ms: number): Promise<void> {
    const wanted = this.#writtenBytes + bytes;
    await delay(ms);
    while (this.#writtenBytes < wanted && this.#failure === null) await delay(PAUSE_MS);
    if (this.#failure !== null) throw this.#failure;
  }

  /** Discards a part of the device, or what the file system has freed. False if the volume takes no discards. */
  async discard(random: Random): Promise<boolean> {
    const { path, access, sizeBytes } = this.target;
    const discarded =
      access === 'block'
        ? discard(path, placeIn(random, sizeBytes() - DISCARD_BYTES, 4096), DISCARD_BYTES)
        : run('fstrim', [path], { env: PROGRAM_PATHS });
    return discarded.then(
      () => true,
      (thrown: unknown) => {
        if (thrown instanceof ConformanceFailure) throw thrown;
        return false;
      },
    );
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    await Promise.all(this.#writers);
    await this.close();
  }
}

const placeIn = (random: Random, bytes: number, alignment: number): number =>
  random.below(Math.floor(bytes / alignment) + 1) * alignment;

async function makeArchive(scratch: string, random: Random): Promise<string> {
  const [tree, path] = [join(scratch, 'tree'), join(scratch, 'archive.tar')];
  await mkdir(tree, { recursive: true });
  for (let index = 0; index < ARCHIVED_FILES; index += 1) {
    await writeFile(join(tree, `file-${index}`), random.bytes(1000 + random.below(40_000)));
  }
  await run('tar', ['-cf', path, '-C', tree, '.']);
  await rm(tree, { recursive: true });
  return path;
}
