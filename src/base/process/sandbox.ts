/**
 * The privileges of a program: builds the command line that drops all other privileges before the program starts.
 *
 * mount(8) keeps two of root's capabilities, a program that reads images of other users (`readsAll`) keeps one, and all others
 * keep none. A tenant's bytes may compromise a program that reads them. So such a program runs as a user that is used for
 * nothing else, in a root directory with programs, libraries and its one device. It cannot start processes, open sockets or
 * write files, and its memory and processor time are limited (native/confine). Starts nothing itself.
 */
import { stat } from 'node:fs/promises';
import { availableParallelism, totalmem } from 'node:os';
import { binaryPath } from '../system/binaries.js';
import { at } from '../system/checked-files.js';
import { deviceNumberOf, deviceSizeBytes } from '../system/device-attributes.js';
import type { GivenFile } from './program-arguments.js';

/** The exit code of blockdelta-confine if it has not started the program. stderr says why. */
export const NOT_CONFINED_EXIT_CODE = 126;
/** Its exit code if the program would have listened on an address that cannot be had. stderr says why. */
export const NOT_LISTENING_EXIT_CODE = 125;

const CONFINE = binaryPath('blockdelta-confine');
const MIB = 1n << 20n;
const GIB = 1n << 30n;

/**
 * Address space. With e2fsprogs 1.47, `fsck.ext4 -f` of an empty ext4 of 16 TiB that was grown from 1 TiB takes 339 MiB, and
 * resize2fs takes 24 MiB. A fragmented file system takes 48 bytes for each piece of free space, so a program is given more on a
 * larger device. Apart from the stacks, it is given at most half of the machine's memory, or MEMORY_BYTES if this is more.
 */
const MEMORY_BYTES = GIB;
const MEMORY_DEVICE_SHARE = 256n;
/** The C library reserves a stack for each thread, and e2fsck starts a thread for each processor. */
const STACK_BYTES = 16n * MIB;

/** Address space of a program on files: qemu-img check takes 263 MiB for a sparse image of 16 GiB, nbdkit 24 bytes a range. */
const OPENS_MEMORY_BYTES = 8n * GIB;

/** Processor time, in seconds. The fsck above took 11 s; an fsck of a TiB full of small files takes minutes. */
const CPU_S = 120;
const CPU_S_PER_TIB = 600;
const TIB = 1n << 40n;
/**
 * The processor time of a program that must not be interrupted. resize2fs took 6 s to grow a file system to 16 TiB, so a
 * program that has used a day is in a loop.
 */
const OUTLIVING_CPU_S = 86_400;

/** A program without a device and without `opensGiven` loses only its capabilities. */
export interface Rights {
  /** Keeps the capabilities of mount(8). */
  mounts?: boolean;
  /** Keeps the capability that reads other users' files. */
  readsAll?: boolean;
  /** The block device whose bytes the program reads. The program can open no other device. */
  device?: string;
  /** Replaces the processor time that a program gets for the size of its device. */
  cpuSeconds?: number;
  /** Files that the program may read beside its device, each at its absolute path, as far as their modes allow. */
  gives?: readonly string[];
  /**
   * For a program that carries the bytes of its device to or from another node: it serves a socket that listens on this address,
   * "127.0.0.1:10809" or "[::1]:10809", or connects to this port. Without Landlock (before Linux 6.7), it may connect to any
   * port. The program gets the socket as systemd's socket activation gives it; its stdout
   * begins with a line that has the port.
   */
  network?: { readonly listen: string } | { readonly connect: number };
  /**
   * For a program that reads data which others may have written. Its memory is limited. If the kernel has Landlock, the
   * program can open only the files of its arguments.
   */
  opensGiven?: boolean;
}

/** The files of a program's arguments. The program inherits them as descriptors from `first` on. */
interface Inherited {
  readonly files: readonly GivenFile[];
  readonly first: number;
}

/** The limits of a program on a device. */
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
  { mounts, readsAll, device, cpuSeconds, gives, network, opensGiven, files, first }: Rights & Inherited,
  outlives: boolean,
): Promise<Sandbox> {
  const line = [CONFINE];
  if (!outlives) line.push('--parent', `${process.pid}`);
  if (mounts) line.push('--keep-mount-rights');
  if (readsAll) line.push('--keep-read-rights');
  if (opensGiven) {
    line.push('--memory', `${OPENS_MEMORY_BYTES}`, '--only-read', '/dev/null');
    for (const [index, { use }] of files.entries()) line.push(`--only-${use}`, at(first + index));
  }
  if (device === undefined) return { line: [...line, '--'], limits: null };
  const sizeBytes = (await deviceSizeBytes(deviceNumberOf(await stat(device)))) ?? 0n;
  const limits: Limits = outlives
    ? { memoryBytes: mostMemory(), cpuSeconds: OUTLIVING_CPU_S }
    : { memoryBytes: memoryFor(sizeBytes), cpuSeconds: cpuSeconds ?? cpuFor(sizeBytes) };
  line.push('--device', device, '--memory', `${limits.memoryBytes}`);
  line.push('--cpu', `${limits.cpuSeconds}`);
  for (const path of gives ?? []) line.push('--give', path);
  if (network !== undefined) {
    line.push(...('listen' in network ? ['--listen', network.listen] : ['--connect', `${network.connect}`]));
  }
  line.push('--');
  return { line, limits };
}

const cpuFor = (sizeBytes: bigint): number => CPU_S + Math.ceil((Number(sizeBytes) / Number(TIB)) * CPU_S_PER_TIB);

function memoryFor(sizeBytes: bigint): bigint {
  const wanted = MEMORY_BYTES + sizeBytes / MEMORY_DEVICE_SHARE;
  const stacks = BigInt(availableParallelism()) * STACK_BYTES;
  return (wanted < mostMemory() ? wanted : mostMemory()) + stacks;
}

/** The limit of a program that must not be interrupted, whatever its device, because it cannot be retried. */
function mostMemory(): bigint {
  const half = BigInt(totalmem()) / 2n;
  return half > MEMORY_BYTES ? half : MEMORY_BYTES;
}

/** The limits as text for the middle of a sentence about a program that failed. */
export function describeLimits({ memoryBytes, cpuSeconds }: Limits): string {
  return `it is given ${memoryBytes / MIB} MiB of memory and ${cpuSeconds} s of processor time`;
}
