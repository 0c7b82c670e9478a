/**
 * Finds out whether the catalogue has lost rows.
 *
 * A row is written before the storage of its object and removed after the storage, wherever a kill comes. An object that a pool
 * holds without a row therefore proves that rows were lost: an older catalogue was restored, a disk lost writes that it had
 * acknowledged, or the pool's owner was changed by hand. The plugin does not rely on the names, sizes and lineage in that
 * catalogue until an operator has confirmed the state.
 *
 * The operator confirms the individual objects that were found, in a file of the state directory. Objects that lose their rows
 * later are reported again. The row of a retained base counts as a row, too.
 */
import { rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { CsiError } from '../../base/errors.js';
import { ownDirectory, readOwn } from '../../base/system/own-files.js';
import type { Backend } from '../backends/backend.js';
import type { AsyncCatalogue } from '../catalogue/catalogue-client.js';
import { SerialQueue } from '../serial-queue.js';
import { type PoolLook, poolLook } from './pool-comparison.js';
import type { RetainedBases } from './retained-bases.js';

/** A volume or snapshot that a pool holds without a row. */
export interface UnknownObject {
  pool: string;
  id: string;
}

const FOUND = 'unknown-objects.json';
const CONFIRMED = 'confirmed-objects.json';
/** How many objects a message lists. */
const LISTED = 3;
/** Enough for some 500,000 objects. */
const MAX_BYTES = 64 << 20;

/** The objects that the pools hold without a row and that nobody has confirmed. */
export class LostRows {
  #objects: readonly UnknownObject[] = [];
  readonly #queue = new SerialQueue();

  constructor(
    private readonly stateDirectory: string,
    private readonly catalogue: Pick<AsyncCatalogue, 'objectsIn' | 'unknownAmong'>,
    private readonly retainedBases: Pick<RetainedBases, 'recover'>,
  ) {}

  /** The unknown objects in the pools that were searched so far. */
  get objects(): readonly UnknownObject[] {
    return this.#objects;
  }

  get found(): boolean {
    return this.#objects.length > 0;
  }

  /**
   * Searches further pools, and writes all the objects found so far to the file that `blockdelta catalogue` reads.
   *
   * @param backends pools that are not served yet: a deletion between the two reads would look like a lost row
   * @returns the look at each pool, except those that hold an object without a row, because a base may have been recovered
   */
  async search(backends: readonly Backend[]): Promise<ReadonlyMap<string, PoolLook>> {
    const unknown: UnknownObject[] = [];
    const seen = new Map<string, PoolLook>();
    for (const backend of backends) {
      const [recorded, contents] = await Promise.all([
        this.catalogue.objectsIn(backend.pool),
        // The start reports a pool that cannot list its objects as a difference.
        backend.list('volumes').catch(() => null),
      ]);
      if (contents === null) continue;
      const look = poolLook(contents, recorded);
      const others = [...look.volumes, ...look.snapshots].filter(({ kind }) => kind === 'unknown');
      const found = await this.catalogue.unknownAmong(others.map(({ id }) => id));
      if (found.length === 0) seen.set(backend.pool, look);
      for (const id of found) {
        // An object that cannot be recovered now is as uncertain as an object without a row.
        const isBase = await this.retainedBases.recover(backend, id).catch(() => false);
        if (!isBase) unknown.push({ pool: backend.pool, id });
      }
    }
    // Pools that come back at the same time write the same file.
    await this.#queue.run(() => this.#add(unknown));
    return seen;
  }

  async #add(unknown: readonly UnknownObject[]): Promise<void> {
    const confirmed =
      unknown.length === 0 ? new Set<string>() : new Set((await confirmedObjects(this.stateDirectory)).map(keyOf));
    const open = unknown.filter((object) => !confirmed.has(keyOf(object)));
    // A pool is searched again if its first attempt to start failed after the search.
    const known = new Map([...this.#objects, ...open].map((object) => [keyOf(object), object]));
    this.#objects = [...known.values()];
    const file = join(this.stateDirectory, FOUND);
    if (this.found) await write(file, this.#objects);
    else await rm(file, { force: true });
  }

  /** The error of refuseChange for the objects found so far. */
  refusal(rpc: string): CsiError {
    return refuseChange(rpc, this.#objects);
  }
}

/** The unknown objects that the last start found and that nobody had confirmed. */
export function foundObjects(stateDirectory: string): Promise<UnknownObject[]> {
  return read(join(stateDirectory, FOUND));
}

export function confirmedObjects(stateDirectory: string): Promise<UnknownObject[]> {
  return read(join(stateDirectory, CONFIRMED));
}

export async function confirmObjects(stateDirectory: string, objects: readonly UnknownObject[]): Promise<void> {
  await ownDirectory(stateDirectory);
  const all = new Map<string, UnknownObject>();
  for (const object of [...(await confirmedObjects(stateDirectory)), ...objects]) {
    all.set(keyOf(object), object);
  }
  await write(join(stateDirectory, CONFIRMED), [...all.values()]);
}

/** FAILED_PRECONDITION for a call that would change the records of a catalogue that lacks rows. */
function refuseChange(rpc: string, unknown: readonly UnknownObject[]): CsiError {
  const [first] = unknown;
  const listed = unknown.slice(0, LISTED).map(({ pool, id }) => `${id} in pool '${pool}'`);
  const more = unknown.length > listed.length ? ` and ${unknown.length - listed.length} more` : '';
  return CsiError.failedPrecondition(
    `${rpc} is refused: the catalogue has lost rows, because the pools hold ${unknown.length} objects without a ` +
      `row (${listed.join(', ')}${more}). Restore a newer backup of the catalogue, or confirm with ` +
      "'blockdelta catalogue confirm' that these objects are to be left alone, and restart the plugin",
    { details: { pool: first?.pool ?? '', objects: unknown.length } },
  );
}

const keyOf = ({ pool, id }: UnknownObject): string => `${pool} ${id}`;

async function read(file: string): Promise<UnknownObject[]> {
  const text = await readOwn(file, MAX_BYTES);
  if (text === null) return [];
  try {
    return (JSON.parse(text) as unknown[]).map(parse);
  } catch (thrown) {
    throw CsiError.failedPrecondition(
      `${file} is not a list of objects with a pool and an id each; remove it and confirm again`,
      { cause: thrown },
    );
  }
}

function parse(value: unknown): UnknownObject {
  const { pool, id } = value as Partial<Record<keyof UnknownObject, unknown>>;
  if (typeof pool !== 'string' || typeof id !== 'string') throw new Error('no pool or no id');
  return { pool, id };
}

async function write(file: string, objects: readonly UnknownObject[]): Promise<void> {
  const temporary = `${file}.tmp`;
  const content = `${JSON.stringify(objects, null, 2)}\n`;
  await rm(temporary, { force: true });
  await writeFile(temporary, content, { mode: 0o600, flag: 'wx', flush: true });
  await rename(temporary, file);
}
