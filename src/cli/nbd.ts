/**
 * `blockdelta nbd SNAPSHOT --socket PATH`: serves a snapshot over NBD for as long as the command runs. In the
 * export, the allocated or changed ranges are data and the rest is holes. This file has the options and the order of
 * the steps, and maps each failure to an exit code.
 */
import { type FileHandle, lstat, rm } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { type Command, InvalidArgumentError } from 'commander';
import { CsiError, errorCode } from '../base/errors.js';
import { humanSize } from '../base/human-size.js';
import { SOCKET_PATH_MAX } from '../base/settings/values.js';
import { at } from '../base/system/checked-files.js';
import { openDirectoryOf } from '../base/system/own-way.js';
import { writeRanges } from '../tools/backup/ranges-file.js';
import { Cleanup } from '../tools/client/cleanup.js';
import { CsiDriver } from '../tools/client/csi-driver.js';
import type { GrainCost } from '../tools/client/grain.js';
import { openMetadata, requestFor } from '../tools/client/metadata-stream.js';
import { publishSnapshot, removeLeftVolumes } from '../tools/client/published-volume.js';
import { createProgress, readMetadata } from '../tools/client/resumable-stream.js';
import { serveRanges } from '../tools/nbd/servers.js';
import { makeSocketDirectory } from '../tools/nbd/socket-directory.js';
import { socketPathOf } from './endpoint.js';
import { grainOption } from './metadata/commands.js';
import { runListCommand } from './metadata/list-command.js';
import { complain, print } from './output.js';
import { parsePath } from './paths.js';
import { openRuntimeDirectory } from './runtime-directory.js';
import { socketProblem } from './socket.js';

interface NbdOptions {
  socket: string;
  base?: string;
  grain?: bigint;
  endpoint?: string;
}

/** The sector size of a device: no list has smaller pieces. */
const SMALLEST_GRAIN = 512n;

export function addNbdCommand(program: Command): void {
  const command = program
    .command('nbd')
    .description('serve a snapshot, or what changed since another one, over NBD')
    .argument('<snapshot>', 'id of the snapshot')
    .requiredOption(
      '--socket <path>',
      'the unix socket for clients; the command creates and removes it',
      parseSocketPath,
    )
    .option('--base <snapshot>', 'only what differs from this older snapshot is data (default: all that is allocated)')
    .addOption(grainOption('; needed above eight million ranges'))
    .option('--endpoint <endpoint>', "the plugin's socket, unix:///path (default: CSI_ENDPOINT)")
    .addHelpText('after', HELP);
  command.action(async (snapshot: string, options: NbdOptions) => {
    const { socket, base = null, grain = SMALLEST_GRAIN } = options;
    const endpoint = socketPathOf(command, options.endpoint);
    const wanted = { endpoint, snapshotId: snapshot, base, grain, socketPath: socket };
    process.exitCode = await runListCommand(endpoint, (signal) => serve(wanted, signal));
  });
}

const HELP = `
Prints the URI of the export when clients can connect, and serves until SIGINT or
SIGTERM. The export is read-only. A client that ignores holes reads the whole snapshot.

Exit codes:
  0    it has served until it was stopped
  1    another failure
  2    wrong usage
  3    refused: an argument is invalid or out of range
  4    there is no such snapshot
  5    no complete list is possible, or a program or a right is missing
  6    cannot connect, or the stream kept being interrupted
  130  stopped by SIGINT or SIGTERM before it served`;

function parseSocketPath(value: string): string {
  const path = parsePath(value);
  const bytes = Buffer.byteLength(path);
  if (bytes <= SOCKET_PATH_MAX) return path;
  throw new InvalidArgumentError(
    `It is ${bytes} bytes long; the kernel takes sockets of ${SOCKET_PATH_MAX}: shorten it.`,
  );
}

interface Wanted {
  endpoint: string;
  snapshotId: string;
  /** Id of the base snapshot; null if there is none. */
  base: string | null;
  grain: bigint;
  socketPath: string;
}

async function serve(wanted: Wanted, signal: AbortSignal): Promise<void> {
  const { socketPath } = wanted;
  const place = await openDirectoryOf(socketPath);
  const cleanup = new Cleanup();
  cleanup.defer(() => place.close());
  try {
    await freeSocketPath(socketPath, place);
    const runtime = await openRuntimeDirectory();
    const directory = makeSocketDirectory(runtime);
    cleanup.defer(() => directory.discard());
    const driver = new CsiDriver(wanted.endpoint, signal);
    cleanup.defer(() => driver.close());
    const ranges = join(directory.path, 'ranges');
    const { cost, capacityBytes } = await listRanges(wanted, ranges, signal);
    await removeLeftVolumes(driver, runtime);
    const { snapshotId } = wanted;
    const snapshot = { snapshotId, sizeBytes: capacityBytes };
    const volume = await publishSnapshot(driver, runtime, snapshot);
    cleanup.defer(() => volume.close());
    const server = await serveRanges({
      from: { device: volume.devicePath },
      ranges,
      directory: directory.path,
      socket: { place, path: socketPath },
    });
    cleanup.defer(() => server.close());
    complain(`serving ${cost.mergedRanges} ranges, ${humanSize(cost.mergedBytes)} of ${humanSize(capacityBytes)}`);
    await print(`${server.uri}\n`);
    await Promise.race([server.exited, aborted(signal)]);
  } finally {
    await cleanup.runAll();
  }
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((done) => {
    if (signal.aborted) done();
    else signal.addEventListener('abort', () => done());
  });
}

/** Removes a socket that a killed command has left. Anything else at the path stays, and is an error. */
async function freeSocketPath(path: string, place: FileHandle): Promise<void> {
  try {
    const socket = at(place.fd, basename(path));
    const state = await lstat(socket);
    const problem = state.isSocket() ? await socketProblem(socket) : null;
    if (problem?.code !== 'ECONNREFUSED') {
      const kind = state.isDirectory() ? 'directory' : 'file';
      const found = state.isSocket() ? 'another program serves there' : `there is a ${kind} of that name`;
      throw CsiError.invalidArgument(`cannot serve on ${path}: ${found}; give another --socket`);
    }
    await rm(socket, { force: true });
  } catch (thrown) {
    if (errorCode(thrown) !== 'ENOENT') throw thrown;
  }
}

/** Writes the list in nbdkit's form. `capacityBytes` is 0 if the driver sent no message, so that it is not known. */
async function listRanges(
  { endpoint, snapshotId, base, grain: grainBytes }: Wanted,
  path: string,
  signal: AbortSignal,
): Promise<{ cost: GrainCost; capacityBytes: bigint }> {
  const progress = createProgress();
  const batches = readMetadata((part, end) => openMetadata(endpoint, part, end), requestFor(snapshotId, base), {
    signal,
    progress,
    onInterrupted: (error, position) => complain(`interrupted (${error.message}); resuming at byte ${position}`),
  });
  const sizeBytes = (): bigint => progress.capacityBytes ?? 0n;
  const of = `snapshot ${snapshotId}`;
  const { cost } = await writeRanges(batches, { of, path, grainBytes, sizeBytes });
  return { cost, capacityBytes: sizeBytes() };
}
