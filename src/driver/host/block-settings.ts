/**
 * Settings of a block device that sysfs and the loop driver offer: read-ahead, I/O scheduler, direct I/O.
 *
 * A loop device number keeps its scheduler when it is reused, and kernels differ in what they do with its
 * read-ahead. So a setting that was not requested is set to the kernel's default, as far as possible. Knows no volumes.
 */
import { readFile, stat, writeFile } from 'node:fs/promises';
import { CsiError, errorCode } from '../../base/errors.js';
import { majorOf, minorOf } from '../../base/system/mountinfo.js';
import type { NativeRunner } from '../native/pool.js';

/** null: not asked for. */
export interface BlockSettings {
  readonly readAheadKiB: number | null;
  readonly ioScheduler: string | null;
  readonly loopDirectIo: boolean | null;
}

/** One setting to change, and how to change it and to revert it. */
interface Change {
  what: string;
  isAsked: boolean;
  make(): Promise<void>;
  revert(): Promise<void>;
}

/** Failures that say nothing of the value: another try may succeed. */
const OF_THE_MOMENT = ['EINTR', 'EAGAIN', 'EIO', 'EMFILE', 'ENFILE', 'ENOMEM', 'ENOSPC'];
const DEFAULT_READ_AHEAD_KIB = 128;
const DEFAULT_SCHEDULER = 'none';

/**
 * Gives the device these settings, all or nothing. FAILED_PRECONDITION if one that was asked for is not
 * possible on this node; the failure itself if that is not what it says. Settings in force already are not written.
 */
export async function applyBlockSettings(
  native: NativeRunner,
  devicePath: string,
  settings: BlockSettings,
): Promise<void> {
  const done: Change[] = [];
  for (const change of await changesFor(native, devicePath, settings)) {
    try {
      await change.make();
      done.push(change);
    } catch (thrown) {
      if (!change.isAsked) continue;
      for (const earlier of done.reverse()) await earlier.revert().catch(() => undefined);
      const code = errorCode(thrown) ?? 'unknown error';
      if (thrown instanceof CsiError || OF_THE_MOMENT.includes(code)) throw thrown;
      throw CsiError.failedPrecondition(
        `${change.what} cannot be set on ${devicePath}: ${code}; leave that parameter out, or give another value`,
        { cause: thrown },
      );
    }
  }
}

async function changesFor(
  native: NativeRunner,
  devicePath: string,
  settings: BlockSettings,
): Promise<Change[]> {
  const { rdev } = await stat(devicePath);
  const directory = `/sys/dev/block/${majorOf(rdev)}:${minorOf(rdev)}`;
  const changes = await Promise.all([
    readAhead(directory, settings.readAheadKiB),
    scheduler(directory, settings.ioScheduler),
    directIo(native, devicePath, directory, settings.loopDirectIo),
  ]);
  return changes.filter((change) => change !== null);
}

/** By default what the kernel gives a new device: twice its best transfer size, 128 KiB at least. */
async function readAhead(directory: string, asked: number | null): Promise<Change | null> {
  const path = `${directory}/queue/read_ahead_kb`;
  const [before, best] = await Promise.all([
    attribute(path),
    attribute(`${directory}/queue/optimal_io_size`),
  ]);
  const wanted = String(asked ?? Math.max(DEFAULT_READ_AHEAD_KIB, (2 * Number(best)) / 1024));
  return textChange(`readAheadKiB ${wanted}`, asked !== null, { path, before, wanted });
}

async function scheduler(directory: string, asked: string | null): Promise<Change | null> {
  const path = `${directory}/queue/scheduler`;
  const names = (await attribute(path)).split(' ').filter((name) => name !== '');
  const active = names.find((name) => name.startsWith('['))?.slice(1, -1) ?? names[0] ?? '';
  const offered = names.map((name) => name.replace(/[[\]]/g, ''));
  if (asked !== null && !offered.includes(asked)) {
    throw CsiError.failedPrecondition(
      `ioScheduler ${asked} is not offered by this node's kernel for the device: it has ${offered.join(', ') || 'none'}`,
    );
  }
  const wanted = asked ?? DEFAULT_SCHEDULER;
  const state = { path, before: active, wanted };
  return textChange(`ioScheduler ${wanted}`, asked !== null, state);
}

/** On by default, where the file system below a loop device lets it. */
async function directIo(
  native: NativeRunner,
  devicePath: string,
  directory: string,
  asked: boolean | null,
): Promise<Change | null> {
  const before = await attribute(`${directory}/loop/dio`);
  if (before === '') {
    if (asked === null) return null;
    throw CsiError.failedPrecondition(
      `loopDirectIo cannot be set on ${devicePath}: it is not a loop device; leave that parameter out`,
    );
  }
  const wanted = asked ?? true;
  if ((before === '1') === wanted) return null;
  const set = async (value: boolean): Promise<void> => {
    await native.run('setLoopDirectIo', { devicePath, directIo: value });
  };
  const what = `loopDirectIo ${wanted}`;
  return { what, isAsked: asked !== null, make: () => set(wanted), revert: () => set(!wanted) };
}

function textChange(
  what: string,
  isAsked: boolean,
  { path, before, wanted }: { path: string; before: string; wanted: string },
): Change | null {
  if (before === wanted) return null;
  const write = (text: string) => () => writeFile(path, text);
  return { what, isAsked, make: write(wanted), revert: write(before) };
}

/** Empty where the device has no such attribute. */
async function attribute(path: string): Promise<string> {
  try {
    return (await readFile(path, 'utf8')).trim();
  } catch (thrown) {
    if (errorCode(thrown) === 'ENOENT') return '';
    throw thrown;
  }
}
