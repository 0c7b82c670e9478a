/**
 * NBD servers as processes: nbdkit in front of a device that is read, qemu-nbd in front of a qcow2 image
 * that is written. Each serves one file on a unix socket until it is closed. Formats are always given:
 * nothing here guesses one from bytes that a tenant has written.
 */
import { randomBytes } from 'node:crypto';
import { constants } from 'node:fs';
import { access, open, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { CsiError, errorCode } from '../../base/errors.js';
import { pollUntil } from '../../base/poll.js';
import type { Argument } from '../../base/process/program-arguments.js';
import type { FileAccess } from '../../base/process/sandbox.js';
import { RUNTIME_DIRECTORY_SETTING } from '../../base/runtime-directory.js';
import { withTimeout } from '../../base/timeout.js';
import { chainName, type ImageChain } from './image-chain.js';
import { Program, type ProgramExit, type ProgramName } from './program.js';

export interface NbdServer {
  /** For nbdcopy and any other client of libnbd. */
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
  /** A directory that nobody else can enter (socket-directory.ts): the socket is made here. */
  directory: string;
  /** Kills the server. */
  signal?: AbortSignal;
}

export interface RangesSource extends ServerPlace {
  /** A block device or a raw file, or the socket of another server. */
  from: { readonly device: string } | { readonly socketPath: string };
  /** A text file with a line "offset size" for each range; the rest of the device reads as a hole. */
  ranges: string;
  /** The socket, if not a name of its own in the directory. */
  socketPath?: string;
}

/** Serves a content read-only to any number of clients: the ranges are data, and everything else is a hole. */
export async function serveRanges(source: RangesSource): Promise<NbdServer> {
  const { from, ranges } = source;
  const isDevice = 'device' in from;
  const path = isDevice ? from.device : from.socketPath;
  const reads = isDevice ? [path, ranges] : [ranges];
  return start('nbdkit', { ...source, reads }, `serve ${path}`, (socket, pidFile) => [
    '--foreground',
    '--readonly',
    { prefix: '--unix=', path: socket },
    { prefix: '--pidfile=', path: pidFile },
    '--filter=extentlist',
    ...(isDevice ? ['file', { prefix: 'file=', path }] : ['nbd', { prefix: 'socket=', path }]),
    { prefix: 'extentlist=', path: ranges },
  ]);
}

export interface ImageSource extends ServerPlace {
  chain: ImageChain;
  /** Clients at a time. */
  clients?: number;
  readOnly?: boolean;
  /**
   * 'none' passes the page cache by, where the file system of the image can do that. Both flush when the
   * client asks for it, and at the end.
   */
  cache?: 'writeback' | 'none';
}

/**
 * Serves a qcow2 image. One that is written ends by itself when its last client leaves, and close() waits for that.
 *
 * @throws as readImageHeader if the image or one that it is based on must not be opened
 */
export async function serveImage(source: ImageSource): Promise<NbdServer> {
  const { chain, clients = 1, readOnly = false, cache = 'writeback' } = source;
  const name = await chainName(chain);
  const isDirect = cache === 'none' && (await allOpenDirectly(chain));
  const purpose = `serve the image ${chain[0]}`;
  const [path = '', ...below] = chain;
  const opens = readOnly ? { reads: chain } : { writes: [path], reads: below };
  return start('qemu-nbd', { ...source, ...opens }, purpose, (socket, pidFile) => [
    { prefix: '--socket=', path: socket },
    { prefix: '--pid-file=', path: pidFile },
    `--shared=${clients}`,
    `--cache=${isDirect ? 'none' : 'writeback'}`,
    // io_uring is faster by little, and often forbidden in containers.
    '--aio=threads',
    '--discard=unmap',
    '--detect-zeroes=off',
    ...(readOnly ? ['--read-only', '--persistent'] : []),
    name,
  ]);
}

/** tmpfs and some network file systems know no O_DIRECT; qemu would refuse the image, or one below it. */
async function allOpenDirectly(paths: readonly string[]): Promise<boolean> {
  for (const path of paths) {
    try {
      await (await open(path, constants.O_RDONLY | constants.O_DIRECT)).close();
    } catch (thrown) {
      if (errorCode(thrown) === 'EINVAL') return false;
      throw thrown;
    }
  }
  return true;
}

const READY_POLL_MS = 5;
const READY_TIMEOUT_MS = 60_000;
/** A server has to write what is in memory to a disk that may be slow. */
const CLOSE_TIMEOUT_MS = 300_000;
/** The kernel's limit for the path of a socket. */
const SOCKET_PATH_MAX = 107;

/** Both programs write their process id to a file when they accept connections. */
async function start(
  name: ProgramName,
  {
    directory,
    signal,
    socketPath,
    reads = [],
    writes = [],
  }: ServerPlace & FileAccess & { socketPath?: string },
  purpose: string,
  argsOf: (socket: string, pidFile: string) => Argument[],
): Promise<NbdServer> {
  // Short, because the directory may take most of what the kernel accepts.
  const own = join(directory, randomBytes(3).toString('hex'));
  const socket = socketPath ?? own;
  const pidFile = `${own}.pid`;
  checkSocketPath(socket);
  const args = argsOf(socket, pidFile);
  const places = [...new Set([directory, dirname(socket)])];
  const opens = { reads, writes, places };
  const program = await Program.start(name, args, { opens, ...(signal && { signal }) });
  program.stdout.resume();
  program.extra.resume();
  const removeFiles = () =>
    Promise.all([rm(socket, { force: true }), rm(pidFile, { force: true })]);
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
    program.kill('SIGTERM');
    const exit = await withTimeout(program.exited, CLOSE_TIMEOUT_MS, () => null);
    if (exit === null) program.kill('SIGKILL');
    await removeFiles();
    if (exit === null) throw hangs(name, purpose);
    if (exit.exitCode !== 0) throw program.failure(purpose, exit);
  };
  return {
    uri: `nbd+unix:///?socket=${encodeURIComponent(socket)}`,
    socketPath: socket,
    exited: program.exited,
    close: () => (closed ??= close()),
  };
}

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
