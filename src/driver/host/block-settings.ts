/**
 * Settings of a block device that sysfs and the loop driver offer: read-ahead, I/O scheduler, direct I/O.
 *
 * A loop device number keeps its scheduler when it is reused, and kernels differ in what they do with its
 * read-ahead. So a setting that was not requested is set to the kernel's default, as far as possible. Knows no volumes.
 */
import { CsiError, errorCode } from '../../base/errors.js';
import { majorOf, minorOf } from '../../base/system/mountinfo.js';
import type { NativeRunner } from '../native/pool.js';

/** A device by its node, and by the st_rdev of the node. */
export interface BlockDevice {
  devicePath: string;
  rdev: number;
}

/** A setting is null if nobody asked for it. */
export interface BlockSettings {
  readonly readAheadKiB: number | null;
  readonly ioScheduler: string | null;
  readonly loopDirectIo: boolean | null;
}

/** One setting to change, and how to change it and to revert it. */
interface Change {
  /** The setting and its value, such as "loopDirectIo true". */
  what: string;
  isAsked: boolean;
  make(): Promise<unknown>;
  revert(): Promise<unknown>;
  /** Whether direct I/O is on after the change; absent if the change is about something else. */
  directIo?: boolean;
}

/** Errors that say nothing about the value: another try may succeed. */
const OF_THE_MOMENT = ['EINTR', 'EAGAIN', 'EIO', 'EMFILE', 'ENFILE', 'ENOMEM', 'ENOSPC'];
const DEFAULT_READ_AHEAD_KIB = 128;
const PAGE_KIB = 4;
const DEFAULT_SCHEDULER = 'none';

/**
 * Applies the settings to the device. Does not write settings that are in force already.
 *
 * @param onRefused receives each requested setting that is not possible, such as "loopDirectIo true", with FAILED_PRECONDITION,
 *   or with the failure itself if the failure says nothing about the value. If onRefused throws, all settings are reverted;
 *   otherwise the other settings are applied.
 * @returns whether direct I/O is on afterwards; null if the device is no loop device
 */
export async function applyBlockSettings(
  native: NativeRunner,
  device: BlockDevice,
  settings: BlockSettings,
  onRefused: (refusal: Error, what: string) => void,
): Promise<boolean | null> {
  const done: Change[] = [];
  const state = await stateOf(native, device);
  for (const change of changesFor(native, device, state, settings)) {
    try {
      await change.make();
      done.push(change);
    } catch (thrown) {
      if (!change.isAsked) continue;
      try {
        onRefused(refusalOf(change.what, device.devicePath, thrown), change.what);
      } catch (refusal) {
        for (const earlier of done.reverse()) await earlier.revert().catch(() => undefined);
        throw refusal;
      }
    }
  }
  return done.find(({ directIo }) => directIo !== undefined)?.directIo ?? directIoIn(state);
}

/** The requested settings that are not in force, such as "loopDirectIo true". */
export async function settingsNotInForce(
  native: NativeRunner,
  device: BlockDevice,
  settings: BlockSettings,
): Promise<string[]> {
  const changes = changesFor(native, device, await stateOf(native, device), settings);
  return changes.filter(({ isAsked }) => isAsked).map(({ what }) => what);
}

/** Null if the device is no loop device. */
const directIoIn = ({ directIo }: State): boolean | null => (directIo === '' ? null : directIo === '1');

function refusalOf(what: string, devicePath: string, thrown: unknown): Error {
  const code = errorCode(thrown) ?? 'unknown error';
  if (thrown instanceof CsiError) return thrown;
  if (thrown instanceof Error && OF_THE_MOMENT.includes(code)) return thrown;
  return CsiError.failedPrecondition(
    `${what} cannot be set on ${devicePath}: ${code}; leave that parameter out, or give another value`,
    { cause: thrown },
  );
}

const sysfsDirectory = ({ rdev }: BlockDevice): string => `/sys/dev/block/${majorOf(rdev)}:${minorOf(rdev)}`;

/** The attributes of a device that the settings are about; empty if the device has no such attribute. */
type State = Readonly<Record<keyof typeof ATTRIBUTES, string>>;

const ATTRIBUTES = {
  readAhead: 'queue/read_ahead_kb',
  optimalIo: 'queue/optimal_io_size',
  scheduler: 'queue/scheduler',
  directIo: 'loop/dio',
} as const;

async function stateOf(native: NativeRunner, device: BlockDevice): Promise<State> {
  const paths = Object.values(ATTRIBUTES).map((name) => `${sysfsDirectory(device)}/${name}`);
  const { texts } = await native.run('attributes', { paths });
  const [readAhead = '', optimalIo = '', scheduler = '', directIo = ''] = texts.map((text) => text ?? '');
  return { readAhead, optimalIo, scheduler, directIo };
}

function changesFor(native: NativeRunner, device: BlockDevice, state: State, settings: BlockSettings): Change[] {
  const changes = [
    readAhead(native, device, state, settings.readAheadKiB),
    scheduler(native, device, state, settings.ioScheduler),
    directIo(native, device, state, settings.loopDirectIo),
  ];
  return changes.filter((change) => change !== null);
}

/** The default is what the kernel gives a new device: twice its optimal transfer size, but at least 128 KiB. */
function readAhead(
  native: NativeRunner,
  device: BlockDevice,
  { readAhead: before, optimalIo }: State,
  asked: number | null,
): Change | null {
  const wanted = String(asked ?? Math.max(DEFAULT_READ_AHEAD_KIB, (2 * Number(optimalIo)) / 1024));
  // The kernel rounds down to whole pages.
  if (asked !== null && String(asked - (asked % PAGE_KIB)) === before) return null;
  const path = `${sysfsDirectory(device)}/${ATTRIBUTES.readAhead}`;
  return textChange(native, `readAheadKiB ${wanted}`, asked !== null, { path, before, wanted });
}

function scheduler(
  native: NativeRunner,
  device: BlockDevice,
  { scheduler: text }: State,
  asked: string | null,
): Change | null {
  const names = text.split(' ').filter((name) => name !== '');
  const active = names.find((name) => name.startsWith('['))?.slice(1, -1) ?? names[0] ?? '';
  const offered = names.map((name) => name.replace(/[[\]]/g, ''));
  if (asked !== null && !offered.includes(asked)) {
    const has = offered.join(', ') || 'none';
    const why = `is not offered by this node's kernel for the device: it has ${has}`;
    return impossible(`ioScheduler ${asked}`, why);
  }
  const wanted = asked ?? DEFAULT_SCHEDULER;
  const path = `${sysfsDirectory(device)}/${ATTRIBUTES.scheduler}`;
  return textChange(native, `ioScheduler ${wanted}`, asked !== null, { path, before: active, wanted });
}

/** Direct I/O is on by default, if the file system below the loop device allows it. */
function directIo(
  native: NativeRunner,
  { devicePath }: BlockDevice,
  { directIo: before }: State,
  asked: boolean | null,
): Change | null {
  if (before === '') {
    if (asked === null) return null;
    const why = `cannot be set on ${devicePath}: it is not a loop device; leave that parameter out`;
    return impossible(`loopDirectIo ${asked}`, why);
  }
  const wanted = asked ?? true;
  if ((before === '1') === wanted) return null;
  const set = async (value: boolean): Promise<void> => {
    await native.run('setLoopDirectIo', { devicePath, directIo: value });
  };
  const what = `loopDirectIo ${wanted}`;
  return { what, isAsked: asked !== null, make: () => set(wanted), revert: () => set(!wanted), directIo: wanted };
}

function impossible(what: string, why: string): Change {
  const make = () => Promise.reject(CsiError.failedPrecondition(`${what} ${why}`));
  return { what, isAsked: true, make, revert: async () => undefined };
}

function textChange(
  native: NativeRunner,
  what: string,
  isAsked: boolean,
  { path, before, wanted }: { path: string; before: string; wanted: string },
): Change | null {
  if (before === wanted) return null;
  const write = (text: string) => () => native.run('setAttribute', { path, text });
  return { what, isAsked, make: write(wanted), revert: write(before) };
}
