/**
 * The privileges that a program runs with: builds the command line that drops all others before it starts.
 *
 * Only mount(8) needs root's capabilities, and it keeps two. A program that reads a tenant's
 * bytes may be compromised by them, so it runs as a user that is used for nothing else, in a root directory
 * with programs, libraries and its one device. It cannot start processes, open sockets or write files, and
 * its memory and processor time are limited (native/confine). Starts nothing itself.
 */
import { stat } from 'node:fs/promises';
import { availableParallelism, totalmem } from 'node:os';
import { binaryPath } from '../system/binaries.js';
import { deviceNumberOf, deviceSizeBytes } from '../system/device-attributes.js';
import { descriptorName, type GivenFile } from './program-arguments.js';

/** Of blockdelta-confine: the program was not started, and stderr says why. */
export const NOT_CONFINED_EXIT_CODE = 126;

const CONFINE = binaryPath('blockdelta-confine');
const MIB = 1n << 20n;
const GIB = 1n << 30n;

/**
 * Address space. Measured with e2fsprogs 1.47: `fsck.ext4 -f` of an empty ext4 of 16 TiB takes 339 MiB
 * where it was grown from 1 TiB, resize2fs 24 MiB. A file system in pieces takes 48 bytes for each piece
 * of free space, so a program is given more on a larger device, but never more than half of the
 * machine's memory.
 */
const MEMORY_BYTES = GIB;
const MEMORY_DEVICE_SHARE = 256n;
/** The C library reserves a stack for each thread, and e2fsck starts one for each processor. */
const STACK_BYTES = 16n * MIB;

/** Address space of a program on files: qemu-img check takes 263 MiB for a sparse image of 16 GiB, nbdkit 24 bytes a range. */
const OPENS_MEMORY_BYTES = 8n * GIB;

/** Processor time, in seconds. The same check took 11 s; one of a TiB full of small files takes minutes. */
const CPU_S = 120;
const CPU_S_PER_TIB = 600;
const TIB = 1n << 40n;
/**
 * For a program that must not be interrupted: growing to 16 TiB took resize2fs 6 s, so one that has used a
 * day is in a loop.
 */
const OUTLIVING_CPU_S = 86_400;

/** A program without a device loses only its capabilities. */
export interface Rights {
  /** Keeps the capabilities of mount(8). */
  mounts?: boolean;
  /** Keeps the capability that reads other users' files. */
  readsAll?: boolean;
  /** The block device whose bytes the program reads: all that it can open. */
  device?: string;
  /** Processor time of a program on a device, if not what its size asks for. */
  cpuSeconds?: number;
  /**
   * For a program that reads what others may have written: where the kernel has Landlock it can open the files of its
   * arguments and no others, and its memory is limited.
   */
  opensGiven?: boolean;
}

/** The files of a program's arguments, which it has from the descriptor `first` on. */
interface Inherited {
  readonly files: readonly GivenFile[];
  readonly first: number;
}

/** What a program on a device is given. */
export interface Limits {
  memoryBytes: bigint;
  cpuSeconds: number;
}

export interface Sandbox {
  /** The command line to put before the program's own. */
  line: string[];
  limits: Limits | null;
}

/** The program is killed when this process ends, unless it must not stop half way (`outlives`). */
export async function sandbox(
  { mounts, readsAll, device, cpuSeconds, opensGiven, files, first }: Rights & Inherited,
  outlives: boolean,
): Promise<Sandbox> {
  const line = [CONFINE];
  if (!outlives) line.push('--parent', `${process.pid}`);
  if (mounts) line.push('--keep-mount-rights');
  if (readsAll) line.push('--keep-read-rights');
  if (opensGiven) {
    line.push('--memory', `${OPENS_MEMORY_BYTES}`, '--only-read', '/dev/null');
    for (const [index, { use }] of files.entries())
      line.push(`--only-${use}`, descriptorName(first + index));
  }
  if (device === undefined) return { line: [...line, '--'], limits: null };
  const sizeBytes = (await deviceSizeBytes(deviceNumberOf(await stat(device)))) ?? 0n;
  const limits: Limits = outlives
    ? { memoryBytes: mostMemory(), cpuSeconds: OUTLIVING_CPU_S }
    : { memoryBytes: memoryFor(sizeBytes), cpuSeconds: cpuSeconds ?? cpuFor(sizeBytes) };
  line.push('--device', device, '--memory', `${limits.memoryBytes}`);
  line.push('--cpu', `${limits.cpuSeconds}`, '--');
  return { line, limits };
}

const cpuFor = (sizeBytes: bigint): number =>
  CPU_S + Math.ceil((Number(sizeBytes) / Number(TIB)) * CPU_S_PER_TIB);

function memoryFor(sizeBytes: bigint): bigint {
  const wanted = MEMORY_BYTES + sizeBytes / MEMORY_DEVICE_SHARE;
  const stacks = BigInt(availableParallelism()) * STACK_BYTES;
  return (wanted < mostMemory() ? wanted : mostMemory()) + stacks;
}

/** The limit of a program that must not be interrupted, whatever its device: it cannot be retried. */
function mostMemory(): bigint {
  const half = BigInt(totalmem()) / 2n;
  return half > MEMORY_BYTES ? half : MEMORY_BYTES;
}

/** For people, in the middle of a sentence about a program that failed. */
export function describeLimits({ memoryBytes, cpuSeconds }: Limits): string {
  return `it is given ${memoryBytes / MIB} MiB of memory and ${cpuSeconds} s of processor time`;
}
