/**
 * Whether the catalogue knows at least what its pools hold.
 *
 * A row comes before the storage of what it names and goes after it, whatever is killed in between. So
 * an object in a pool that no row names is a proof that rows were lost: an older catalogue was put back,
 * a disk has swallowed what it had promised to keep, or a pool's owner was changed by hand. What such a
 * catalogue says of names, sizes and lineage is not to be built upon until a person has looked at it.
 *
 * The person confirms the very objects that were found, in a file of the state directory. What is lost
 * later is not among them and is found again.
 */
import { readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { BackendRegistry } from '../backends/registry.js';
import { CsiError, errorCode } from '../base/errors.js';
import type { AsyncCatalogue } from '../catalogue/catalogue-client.js';

/** A volume or snapshot that a pool holds and no row names. */
export interface UnknownObject {
  pool: string;
  id: string;
}

const FOUND = 'unknown-objects.json';
const CONFIRMED = 'confirmed-objects.json';
/** What is named in a message of those that were found. */
const SHOWN = 3;

/** Those that nobody has confirmed. Also leaves the list where `blockdelta catalogue` finds it. */
export async function findUnknownObjects(
  stateDirectory: string,
  { catalogue, registry }: { catalogue: AsyncCatalogue; registry: BackendRegistry },
): Promise<UnknownObject[]> {
  const found: UnknownObject[] = [];
  for (const backend of registry.all) {
    // A pool that cannot say what it holds is one of the differences that a start reports.
    const contents = await backend.list().catch(() => null);
    if (contents === null) continue;
    const ids = [...contents.volumes, ...contents.snapshots].map(({ id }) => id);
    const unknown = await catalogue.unknownAmong(ids);
    found.push(...unknown.map((id) => ({ pool: backend.pool, id })));
  }
  if (found.length === 0) {
    await rm(join(stateDirectory, FOUND), { force: true });
    return [];
  }
  const confirmed = new Set((await confirmedObjects(stateDirectory)).map(keyOf));
  const open = found.filter((object) => !confirmed.has(keyOf(object)));
  if (open.length === 0) await rm(join(stateDirectory, FOUND), { force: true });
  else await write(join(stateDirectory, FOUND), open);
  return open;
}

/** What the last start has found; none: it has found nothing, or all of it was confirmed before. */
export function foundObjects(stateDirectory: string): Promise<UnknownObject[]> {
  return read(join(stateDirectory, FOUND));
}

export function confirmedObjects(stateDirectory: string): Promise<UnknownObject[]> {
  return read(join(stateDirectory, CONFIRMED));
}

/** Confirms what the last start has found, beside what was confirmed before. */
export async function confirmObjects(
  stateDirectory: string,
  objects: readonly UnknownObject[],
): Promise<void> {
  const all = new Map<string, UnknownObject>();
  for (const object of [...(await confirmedObjects(stateDirectory)), ...objects]) {
    all.set(keyOf(object), object);
  }
  await write(join(stateDirectory, CONFIRMED), [...all.values()]);
}

/** FAILED_PRECONDITION for a call that changes what the catalogue records, while it lacks rows. */
export function refuseChange(rpc: string, unknown: readonly UnknownObject[]): CsiError {
  const [first] = unknown;
  const shown = unknown.slice(0, SHOWN).map(({ pool, id }) => `${id} in pool '${pool}'`);
  const more = unknown.length > shown.length ? ` and ${unknown.length - shown.length} more` : '';
  return CsiError.failedPrecondition(
    `${rpc} is refused: the catalogue has lost rows, for the pools hold ${unknown.length} objects that it does ` +
      `not know (${shown.join(', ')}${more}). Put back a newer backup of the catalogue, or confirm that ` +
      "these are to be left alone with 'blockdelta catalogue confirm' and restart the plugin",
    { details: { pool: first?.pool ?? '', objects: unknown.length } },
  );
}

const keyOf = ({ pool, id }: UnknownObject): string => `${pool} ${id}`;

async function read(file: string): Promise<UnknownObject[]> {
  let text: string;
  try {
    text = await readFile(file, 'utf8');
  } catch (thrown) {
    if (errorCode(thrown) === 'ENOENT') return [];
    throw thrown;
  }
  try {
    return (JSON.parse(text) as unknown[]).map(parse);
  } catch (thrown) {
    throw CsiError.failedPrecondition(
      `${file} is not a list of objects with a pool and an id each; remove it, and confirm again`,
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
  await writeFile(temporary, content, { mode: 0o600, flush: true });
  await rename(temporary, file);
}
