/**
 * Runs NBD servers as processes: nbdkit for the ranges of a device or of another server, qemu-nbd for a qcow2 image
 * that is read or written. Each serves on a unix socket until it is closed. Formats are always given, so nothing here
 * guesses a format from bytes that a tenant has written.
 */
import { randomBytes } from 'node:crypto';
import { access, type FileHandle, open, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { CsiError } from '../../base/errors.js';
import { pollUntil } from '../../base/poll.js';
import type { ProgramExit } from '../../base/process/program.js';
import { type Argument, fileArgument } from '../../base/process/program-arguments.js';
import { SOCKET_PATH_MAX } from '../../base/settings/values.js';
import { at } from '../../base/system/checked-files.js';
import { RUNTIME_DIRECTORY_SETTING } from '../../base/system/runtime-directory.js';
import { withTimeout } from '../../base/timeout.js';
import { chainArgument, type ImageChain, pathOf } from './image-chain.js';
import { openPlain, opensDirectly } from './plain-file.js';
import { type ProgramName, startProgram } from './program.js';

export interface NbdServer {
  /** The URI for nbdcopy and any other client of libnbd. */
  readonly uri: string;
  readonly socketPath: string;
  /** Resolves when the process ends, for whatever reason. */
  readonly exited: Promise<ProgramExit>;
  /**
   * Ends the server and removes its socket. A server of an image has then written everything to the file.
   * Rejects if the server had failed before. May be called twice.
   */
  close(): Promise<void>;
}

interface ServerPlace {
  /** A directory that nobody else can enter (socket-directory.ts). The socket is made here. */
  directory: string;
  /** Kills the server. */
  signal?: AbortSignal | undefined;
}

export interface RangesSource extends ServerPlace {
  /** A block device or a raw file, or the socket of another server. */
  from: { readonly device: string } | { readonly socketPath: string };
  /** A text file with a line "offset size" for each range; the rest of the device reads as a hole. */
  ranges: string;
  /** The size, if it is larger than that of the content: what follows the content reads as zeros, which are data within a range. */
  extendsTo?: bigint;
  /** Where the socket is made, if not in `directory`: in an open directory, wherever the path leads later. */
  socket?: { readonly place: FileHandle; readonly path: string };
}

/** Serves a content read-only to any number of clients: the ranges are data, and everything else is a hole. */
export async function serveRanges(source: RangesSource): Promise<NbdServer> {
  const { from, ranges, extendsTo } = source;
  const isDevice = 'device' in from;
  const path = isDevice ? from.device : from.socketPath;
  const device = fileArgument({ path, use: 'read', open: () => open(path) }, 'file=');
  const list = { path: ranges, use: 'read', open: () => openPlain(ranges) } as const;
  return start('nbdkit', source, `serve ${path}`, (socket, pidFile) => [
    '--foreground',
    '--readonly',
    socket('--unix='),
    pidFile('--pidfile='),
    '--filter=extentlist',
    ...(extendsTo === undefined ? [] : ['--filter=truncate']),
    ...(isDevice ? ['file', device] : ['nbd', { prefix: 'socket=', path }]),
    fileArgument(list, 'extentlist='),
    ...(extendsTo === undefined ? [] : [`truncate=${extendsTo}`]),
  ]);
}

/** Serves a block device past its page cache. Zeros that are written free their space. A server that writes ends as serveImage's. */
export async function serveDevice({
  device: path,
  readOnly = false,
  ...place
}: ServerPlace & { device: string; readOnly?: boolean }): Promise<NbdServer> {
  const flags = readOnly ? 'r' : 'r+';
  const given = { path, use: readOnly ? 'read' : 'write', open: () => open(path, flags) } as const;
  return start('qemu-nbd', place, `serve ${path}`, (socket, pidFile) => [
    socket('--socket='),
    pidFile('--pid-file='),
    '--shared=1',
    '--cache=none',
    '--aio=threads',
    '--discard=unmap',
    '--detect-zeroes=unmap',
    ...(readOnly ? ['--read-only', '--persistent'] : []),
    '--image-opts',
    fileArgument(given, 'driver=raw,file.driver=host_device,file.filename='),
  ]);
}

export interface FileSource extends ServerPlace {
  /** A server of HTTP on a unix socket. */
  httpSocket: string;
  /** The path of the file at the server. It begins with a slash. */
  path: string;
}

/** Serves a file of a server of HTTP, byte for byte and read-only. */
export async function serveFile(source: FileSource): Promise<NbdServer> {
  const { httpSocket, path } = source;
  return start('nbdkit', source, `serve ${path}`, (socket, pidFile) => [
    '--foreground',
    '--readonly',
    socket('--unix='),
    pidFile('--pidfile='),
    'curl',
    { prefix: 'unix-socket-path=', path: httpSocket },
    `url=http://localhost${path}`,
  ]);
}

export interface ImageSource extends ServerPlace {
  chain: ImageChain;
  readOnly?: boolean;
  /**
   * 'none' bypasses the page cache, if the file systems of the chain support this. Both flush when the client requests
   * a flush, and at the end.
   */
  cache?: 'writeback' | 'none';
}

/**
 * Serves a qcow2 image. A server that writes ends by itself when its last client leaves, and close() waits for its end.
 *
 * @throws like readImageHeader if the image or one of its bases must not be opened
 */
export async function serveImage(source: ImageSource): Promise<NbdServer> {
  const { chain, readOnly = false, cache = 'writeback' } = source;
  const isDirect = cache === 'none' && (await allOpenDirectly(chain));
  const purpose = `serve the image ${pathOf(chain[0])}`;
  return start('qemu-nbd', source, purpose, (socket, pidFile) => [
    socket('--socket='),
    pidFile('--pid-file='),
    '--shared=1',
    `--cache=${isDirect ? 'none' : 'writeback'}`,
    // io_uring is only slightly faster, and often forbidden in containers.
    '--aio=threads',
    '--discard=unmap',
    '--detect-zeroes=off',
    ...(readOnly ? ['--read-only', '--persistent'] : []),
    chainArgument(chain, !readOnly),
  ]);
}

/** QEMU would refuse the image if one file does not. */
async function allOpenDirectly(chain: ImageChain): Promise<boolean> {
  for (const path of chain) {
    if (typeof path === 'object' || !(await opensDirectly(path))) return false;
  }
  return true;
}

const READY_POLL_MS = 5;
const SIGNAL_INTERVAL_MS = 100;
const READY_TIMEOUT_MS = 60_000;
/** A server that closes writes the data in its memory to a disk that may be slow. */
const CLOSE_TIMEOUT_MS = 300_000;

/** Both programs write their process id to a file when they accept connections. */
async function start(
  name: ProgramName,
  { directory, signal, socket }: ServerPlace & Pick<RangesSource, 'socket'>,
  purpose: string,
  argsOf: (socket: NewFile, pidFile: NewFile) => Argument[],
): Promise<NbdServer> {
  // The name is short, because the directory may take most of the length that the kernel accepts.
  const own = join(directory, randomBytes(3).toString('hex'));
  const pidFile = `${own}.pid`;
  const path = socket?.path ?? own;
  const socketAt = socket === undefined ? own : at(socket.place.fd, basename(path));
  checkSocketPath(path);
  const args = argsOf(newFile(path, socket?.place), newFile(pidFile));
  const program = await startProgram(name, args, signal);
  program.stdout.resume();
  const removeFiles = () => Promise.all([rm(socketAt, { force: true }), rm(pidFile, { force: true })]);
  const isReady = await pollUntil(async () => program.exit !== null || (await exists(pidFile)), {
    intervalMs: READY_POLL_MS,
    timeoutMs: READY_TIMEOUT_MS,
  });
  if (program.exit !== null || isReady === null) {
    program.kill('SIGKILL');
    const exit = await program.exited;
    await removeFiles();
    signal?.throwIfAborted();
    throw program.failure(purpose, exit);
  }
  let closed: Promise<void> | null = null;
  const close = async (): Promise<void> => {
    // Again and again: qemu-nbd forgets a signal that it gets just after it has written its process id.
    const again = setInterval(() => program.kill('SIGTERM'), SIGNAL_INTERVAL_MS);
    program.kill('SIGTERM');
    const exit = await withTimeout(program.exited, CLOSE_TIMEOUT_MS, () => null);
    clearInterval(again);
    if (exit === null) program.kill('SIGKILL');
    await removeFiles();
    if (exit === null) throw hangs(name, purpose);
    if (exit.exitCode !== 0) throw program.failure(purpose, exit);
  };
  return {
    uri: `nbd+unix:///?socket=${encodeURIComponent(path)}`,
    socketPath: path,
    exited: program.exited,
    close: () => (closed ??= close()),
  };
}

/** Returns the argument for a file or socket that the program makes in a directory. */
type NewFile = (prefix: string) => Argument;

const newFile =
  (path: string, place?: FileHandle): NewFile =>
  (prefix) => {
    const directory = place === undefined ? dirname(path) : at(place.fd);
    const given = { path: dirname(path), use: 'in', open: () => open(directory) } as const;
    return fileArgument(given, prefix, `/${basename(path)}`);
  };

function hangs(name: ProgramName, purpose: string): CsiError {
  return CsiError.unavailable(
    `${name}, started to ${purpose}, did not end within ${CLOSE_TIMEOUT_MS / 1000} s and was killed; ` +
      'the disk it writes to may be stuck',
  );
}

function checkSocketPath(path: string): void {
  const bytes = Buffer.byteLength(path);
  if (bytes <= SOCKET_PATH_MAX) return;
  throw CsiError.invalidArgument(
    `the path of the socket, ${path}, is ${bytes} bytes long; the kernel accepts ${SOCKET_PATH_MAX}: ` +
      `set ${RUNTIME_DIRECTORY_SETTING} to a directory with a shorter path`,
  );
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}
