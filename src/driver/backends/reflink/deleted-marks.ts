/**
 * The directory `bases` of a reflink pool: marks of deleted snapshots, empty files; `.lost` may be the damaged list.
 *
 *   <snapshot>.hidden             its file stays in the pool until a change list begins there
 *   <snapshot>.dropped, .lost, .changed
 *                                 why no delta can begin there any more
 *   <any of these>.tmp            being made; removed at the next start
 *
 * Knows names, not when a mark is to be made.
 */
import { join } from 'node:path';
import { insteadOf } from '../../../base/errors.js';
import { namesIn, unlink } from '../directory-files.js';
import { basesIn } from '../retained/retained-directories.js';
import type { OpenDirectories } from './open-directories.js';
import { isObjectName, temporary } from './pool-layout.js';

/** A mark says that the snapshot's file stays for now, was removed for lack of space, has a damaged list, or was changed. */
export type Mark = 'hidden' | 'dropped' | 'lost' | 'changed';
const MARKS: readonly Mark[] = ['hidden', 'dropped', 'lost', 'changed'];

const directoryOf = ({ layout: { root } }: OpenDirectories): string => basesIn(root);

export const markPath = (opened: OpenDirectories, snapshotId: string, mark: Mark): string =>
  join(directoryOf(opened), `${snapshotId}.${mark}`);

export async function marksIn(opened: OpenDirectories): Promise<Map<string, Mark>> {
  const marks = new Map<string, Mark>();
  for (const name of await markNamesIn(opened)) {
    const [id = '', suffix = '', ...rest] = name.split('.');
    const mark = MARKS.find((each) => each === suffix);
    if (isObjectName(id) && mark !== undefined && rest.length === 0) marks.set(id, mark);
  }
  return marks;
}

/** Whether marks are made in the pool itself. */
export async function hasOwnMarks(opened: OpenDirectories): Promise<boolean> {
  // The path ends with a slash, because the path of a descriptor is a link.
  const { entry: root } = await opened.native.run('entryOf', { path: `${opened.layout.root}/` });
  const { entry: marks } = await opened.native.run('entryOf', { path: directoryOf(opened) });
  return marks === null || marks.device === root?.device;
}

/** The mark is durable when the promise resolves. */
export async function setMark(opened: OpenDirectories, snapshotId: string, mark: Mark): Promise<void> {
  const { native } = opened;
  await makeMarks(opened);
  const path = markPath(opened, snapshotId, mark);
  await native.run('writeText', { path: temporary(path), text: '' });
  await native.run('renameFile', { from: temporary(path), to: path });
  await native.run('flush', { path: directoryOf(opened) });
}

/** Renames the mark, which takes no space and so works in a full pool. */
export async function changeMark(opened: OpenDirectories, snapshotId: string, from: Mark, to: Mark): Promise<void> {
  const names = { from: markPath(opened, snapshotId, from), to: markPath(opened, snapshotId, to) };
  await opened.native.run('renameFile', names);
}

export async function removeMarks(opened: OpenDirectories, snapshotId: string): Promise<void> {
  for (const mark of MARKS) await unlink(opened.native, markPath(opened, snapshotId, mark));
}

export async function makeMarks(opened: OpenDirectories): Promise<void> {
  await opened.native.run('makeDirectory', { path: directoryOf(opened) });
}

/** Removes marks that killed runs left unfinished. */
export async function sweepMarks(opened: OpenDirectories): Promise<void> {
  for (const name of await markNamesIn(opened)) {
    if (!name.endsWith(temporary(''))) continue;
    await unlink(opened.native, join(directoryOf(opened), name));
  }
}

async function markNamesIn(opened: OpenDirectories): Promise<string[]> {
  // If there is no directory, no snapshot was ever retained.
  return namesIn(opened.native, directoryOf(opened)).catch(insteadOf(['ENOENT'], []));
}
