/**
 * The directory `bases` of a reflink pool: what is retained of deleted snapshots, by the names of its files.
 *
 *   <base>.to.<target>            a change list: what differs between two snapshots
 *   <snapshot>.hidden             empty; the snapshot is deleted, and its file stays until a list begins there
 *   <snapshot>.dropped, .lost     empty; why no delta can begin there any more
 *   <any of these>.tmp            being made; replaced by the next attempt, removed at the next start
 *
 * Knows names and sizes. What lists contain, and when they are made, is not decided here.
 */
import { open, readdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { errorCode } from '../../../base/errors.js';
import type { NativeRunner } from '../../native/pool.js';
import { makeDirectory, type OpenDirectories } from './open-directories.js';
import { filesIn, type PoolFile } from './pool-files.js';
import { isObjectName, temporary } from './pool-layout.js';

/** Of a snapshot that is deleted: its file stays for now, was removed for want of space, or its list is damaged. */
export type Mark = 'hidden' | 'dropped' | 'lost';
const MARKS: readonly Mark[] = ['hidden', 'dropped', 'lost'];

/** A stored list from one snapshot to another. */
export interface Step {
  readonly baseId: string;
  readonly targetId: string;
  readonly name: string;
  /** Space that it takes. */
  readonly storedBytes: bigint;
}

/** What is retained of deleted snapshots: steps and marks by the snapshot at which they begin. */
export interface RetainedContents {
  readonly steps: ReadonlyMap<string, readonly Step[]>;
  readonly marks: ReadonlyMap<string, Mark>;
  /** Snapshots that have a file, hidden ones included. */
  readonly files: ReadonlySet<string>;
}

const STEP = '.to.';

/** @param root of the pool: its real path, or one through an open directory */
export const basesIn = (root: string): string => join(root, 'bases');

export const stepName = (baseId: string, targetId: string): string => `${baseId}${STEP}${targetId}`;

export const markName = (snapshotId: string, mark: Mark): string => `${snapshotId}.${mark}`;

/** Null: the name is not that of a complete step. */
function parseStep(name: string): { baseId: string; targetId: string } | null {
  const [baseId = '', targetId = '', ...rest] = name.split(STEP);
  return rest.length === 0 && isObjectName(baseId) && isObjectName(targetId)
    ? { baseId, targetId }
    : null;
}

function parseMark(name: string): { snapshotId: string; mark: Mark } | null {
  const [snapshotId = '', suffix = ''] = name.split('.', 2);
  const mark = MARKS.find((each) => markName(snapshotId, each) === name);
  return mark !== undefined && suffix !== '' && isObjectName(snapshotId)
    ? { snapshotId, mark }
    : null;
}

/**
 * The files first: where one is gone a list was made before that, and is found. Both together are read at one moment
 * only if no list is removed meanwhile.
 */
export async function retainedContents(
  native: NativeRunner,
  opened: OpenDirectories,
): Promise<RetainedContents> {
  const files = await readdir(opened.layout.snapshots);
  const steps = new Map<string, Step[]>();
  const marks = new Map<string, Mark>();
  for (const { name, allocatedBytes } of await basesOf(native, opened)) {
    const step = parseStep(name);
    const mark = parseMark(name);
    if (step !== null) {
      const known = steps.get(step.baseId) ?? [];
      steps.set(step.baseId, [...known, { ...step, name, storedBytes: allocatedBytes }]);
    }
    if (mark !== null) marks.set(mark.snapshotId, mark.mark);
  }
  return { steps, marks, files: new Set(files.filter(isObjectName)) };
}

/** Deleted snapshots whose files stay. */
export function hiddenIn({ marks, files }: RetainedContents): Set<string> {
  return new Set([...marks.keys()].filter((id) => marks.get(id) === 'hidden' && files.has(id)));
}

async function basesOf(native: NativeRunner, opened: OpenDirectories): Promise<PoolFile[]> {
  try {
    return await filesIn(native, basesIn(opened.layout.root));
  } catch (thrown) {
    // Nothing was ever retained.
    if (errorCode(thrown) === 'ENOENT') return [];
    throw thrown;
  }
}

/** Removes what killed runs have left unfinished. */
export async function sweepBases(native: NativeRunner, opened: OpenDirectories): Promise<void> {
  for (const { name } of await basesOf(native, opened)) {
    if (!name.endsWith(temporary(''))) continue;
    await rm(join(basesIn(opened.layout.root), name), { force: true });
  }
}

/**
 * The steps from a snapshot to the nearest one that has a file; empty if it has one itself. Null: the steps end
 * at a snapshot that is gone.
 */
export function stepsToFile({ steps, files }: RetainedContents, from: string): Step[] | null {
  const reached = new Set([from]);
  let paths: { at: string; path: Step[] }[] = [{ at: from, path: [] }];
  while (paths.length > 0) {
    const next: { at: string; path: Step[] }[] = [];
    for (const { at, path } of paths) {
      if (files.has(at)) return path;
      for (const step of steps.get(at) ?? []) {
        if (reached.has(step.targetId)) continue;
        reached.add(step.targetId);
        next.push({ at: step.targetId, path: [...path, step] });
      }
    }
    paths = next;
  }
  return null;
}

export async function makeBases({ layout: { root } }: OpenDirectories): Promise<void> {
  await makeDirectory(basesIn(root));
}

/** Durable when it returns. */
export async function setMark(
  native: NativeRunner,
  opened: OpenDirectories,
  snapshotId: string,
  mark: Mark,
): Promise<void> {
  const bases = basesIn(opened.layout.root);
  const path = join(bases, markName(snapshotId, mark));
  const file = await open(temporary(path), 'w', 0o600);
  await file.close();
  await rename(temporary(path), path);
  await native.run('flush', { path: bases });
}

/** Takes no space, so that it works in a full pool. */
export async function changeMark(
  opened: OpenDirectories,
  snapshotId: string,
  from: Mark,
  to: Mark,
): Promise<void> {
  const bases = basesIn(opened.layout.root);
  await rename(join(bases, markName(snapshotId, from)), join(bases, markName(snapshotId, to)));
}

export async function removeMarks(opened: OpenDirectories, snapshotId: string): Promise<void> {
  const bases = basesIn(opened.layout.root);
  for (const mark of MARKS) await rm(join(bases, markName(snapshotId, mark)), { force: true });
}
