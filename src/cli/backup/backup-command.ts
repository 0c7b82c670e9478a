/** `blockdelta backup SNAPSHOT --to DIR`: its options, its progress, and what it prints. many-backups.ts backs up several. */
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { humanSize, withHumanSize } from '../../base/human-size.js';
import { type BackupResult, backUp, type Phase } from '../../tools/backup/backup.js';
import type { Repository } from '../../tools/backup/repository.js';
import { imagePathOf } from '../../tools/backup/stored-backup.js';
import { CsiDriver } from '../../tools/client/csi-driver.js';
import { parseGrain } from '../../tools/client/grain.js';
import type { Compression } from '../../tools/nbd/image.js';
import { socketPathOf } from '../endpoint.js';
import { ExitCode } from '../exit-codes.js';
import { runListCommand } from '../metadata/list-command.js';
import { complain, harmless, print } from '../output.js';
import { checkOutputs } from '../output-file.js';
import { parsePath } from '../paths.js';
import { ProgressLine } from '../progress.js';
import { openRuntimeDirectory } from '../runtime-directory.js';
import { runManyBackups } from './many-backups.js';
import {
  type AccessOptions,
  addAccess,
  addSpool,
  ENDPOINT_HELP,
  parseCount,
  parseRepository,
  suggestTo,
  withRepository,
} from './shared-options.js';
import { TransferProgress } from './transfer-progress.js';

interface BackupOptions extends AccessOptions {
  to: string;
  base: string;
  grain: bigint;
  compress?: Compression;
  volume?: string;
  endpoint?: string;
  json: boolean;
  all: boolean;
  jobs?: number;
  metrics?: string;
}

const DEFAULT_GRAIN = 4096n;

export function addBackupCommand(program: Command): void {
  const command = program.command('backup');
  command
    .description('copy a snapshot, or what changed since an earlier one, into a qcow2 image')
    .argument('[snapshot]', 'id of the snapshot, or - for ids on standard input, one a line')
    .requiredOption('--to <repository>', 'a directory, or rclone:REMOTE:PATH', parseRepository)
    .option(
      '--base <base>',
      'auto: the newest backup that the driver gives a delta for; none: a full backup; or a snapshot that has a backup',
      'auto',
    )
    .addOption(
      new Option('--grain <size>', 'round ranges outwards to multiples of this, such as 64Ki, and merge what touches')
        .argParser(grainOf)
        .default(DEFAULT_GRAIN, '4Ki'),
    )
    .addOption(new Option('--compress <method>', 'compress the image').choices(['zstd']))
    .option('--volume <id>', 'volume of the snapshot, for drivers that have neither GET_SNAPSHOT nor LIST_SNAPSHOTS')
    .option('--endpoint <endpoint>', ENDPOINT_HELP)
    .option('--json', 'print the result as one JSON object, with sizes as strings; of several, one in each line', false)
    .option('--all', 'back up all snapshots that the driver lists', false)
    .option('--jobs <count>', 'with --all or -: back up that many volumes at once (default: 1)', parseJobs)
    .option(
      '--metrics <file>',
      'with --all or -: write metrics for node_exporter, to a name that ends in .prom',
      parsePath,
    );
  addSpool(addAccess(suggestTo(command)))
    .addHelpText('after', HELP)
    .action(async (snapshotId: string | undefined) => {
      const options = command.opts<BackupOptions>();
      const problem = usageProblem(snapshotId, options);
      if (problem !== null) command.error(`error: ${problem}`);
      const socketPath = socketPathOf(command, options.endpoint);
      let found: ExitCode = ExitCode.OK;
      const ended = await runListCommand(socketPath, (signal) =>
        withRepository(options.to, { ...options, create: true }, signal, async (repository) => {
          const what = { socketPath, repository };
          if (snapshotId !== undefined && snapshotId !== '-')
            return runBackup({ ...what, snapshotId }, options, signal);
          found = await runMany({ ...what, snapshotIds: options.all ? null : await linesOfInput() }, options, signal);
        }),
      );
      process.exitCode = ended === ExitCode.OK ? found : ended;
    });
}

/** Returns what is wrong with the arguments together; null if nothing is. */
function usageProblem(snapshotId: string | undefined, { all, jobs, metrics, base }: BackupOptions): string | null {
  if (all === (snapshotId !== undefined)) return 'name a snapshot, - for ids on standard input, or --all';
  if (all || snapshotId === '-') {
    return ['auto', 'none'].includes(base) ? null : '--base ID is for one snapshot; several have auto or none';
  }
  const isForMany = jobs !== undefined ? '--jobs' : metrics !== undefined ? '--metrics' : null;
  return isForMany && `${isForMany} goes with --all or - only`;
}

function parseJobs(value: string): number {
  const count = parseCount(value);
  if (count >= 1 && count <= MAX_JOBS) return count;
  throw new InvalidArgumentError(`It must be a number from 1 to ${MAX_JOBS}.`);
}

const MAX_JOBS = 32;

async function linesOfInput(): Promise<string[]> {
  const lines: string[] = [];
  for await (const line of createInterface({ input: process.stdin })) if (line.trim() !== '') lines.push(line.trim());
  return lines;
}

const HELP = `
The first backup of a volume is full. Later ones hold what changed and are based on an
earlier one. If the driver gives no delta, the backup is full, and its manifest says why.

Several snapshots (--all, or ids on standard input): those of a volume are backed up one after
another, oldest first. A failure stops no other backup. Snapshots of other nodes are skipped.

Exit codes:
  0    the backup is complete, or the snapshot already had one
  1    another failure
  2    wrong usage
  3    refused: an argument is invalid or out of range
  4    there is no such snapshot, or no backup of the base
  5    something has to be repaired first; the message says what
  6    cannot connect, or the driver kept failing
  8    the remote failed; the finished image waits in the spool, and the next backup sends it
  9    of several snapshots, some failed and others have backups
  130  stopped by SIGINT or SIGTERM`;

async function runBackup(
  { socketPath, snapshotId, repository }: { socketPath: string; snapshotId: string; repository: Repository },
  options: BackupOptions,
  signal: AbortSignal,
): Promise<void> {
  const started = performance.now();
  const driver = new CsiDriver(socketPath, signal);
  const progress = new TransferProgress(PHASES.publish);
  const line = new ProgressLine(() => progress.state);
  const onNotice = (message: string): void => {
    line.clear();
    complain(message);
  };
  try {
    const result = await backUp({
      ...requestFor(options),
      driver,
      runtime: await openRuntimeDirectory(onNotice),
      snapshotId,
      repository,
      signal,
      observer: {
        onProgress: (phase, bytes, total) => {
          progress.begin(PHASES[phase], total);
          progress.done = bytes;
        },
        onNotice,
      },
    });
    line.end();
    const seconds = (performance.now() - started) / 1000;
    await print(options.json ? `${JSON.stringify(jsonOf(result, seconds))}\n` : harmless(asText(result, seconds)));
  } finally {
    line.end();
    driver.close();
  }
}

/** The same for every snapshot. */
function requestFor({ base, volume, grain, compress }: BackupOptions) {
  return {
    volumeId: volume ?? null,
    base: base === 'auto' || base === 'none' ? base : { snapshotId: base },
    grainBytes: grain,
    compression: compress ?? null,
  } as const;
}

async function runMany(
  what: { socketPath: string; snapshotIds: readonly string[] | null; repository: Repository },
  options: BackupOptions,
  signal: AbortSignal,
): Promise<ExitCode> {
  const { repository, snapshotIds } = what;
  const { jobs = 1, metrics: metricsPath = null, json } = options;
  if (metricsPath !== null) await checkOutputs([metricsPath]);
  const driver = new CsiDriver(what.socketPath, signal);
  const runtime = await openRuntimeDirectory(complain);
  const request = { ...requestFor(options), driver, runtime, repository, signal };
  try {
    return await runManyBackups({
      ...request,
      snapshotIds,
      jobs,
      json,
      metricsPath,
      backUp: (snapshotId, onNotice) =>
        backUp({ ...request, snapshotId, observer: { onProgress: () => undefined, onNotice } }),
      jsonOf,
    });
  } finally {
    driver.close();
  }
}

function grainOf(text: string): bigint {
  const grain = parseGrain(text);
  if (grain !== null) return grain;
  throw new InvalidArgumentError('It must be a multiple of 512 from 512 to 1Gi, such as 64Ki.');
}

const PHASES: Readonly<Record<Phase, string>> = {
  publish: 'publishing the snapshot',
  list: 'reading the list',
  copy: 'copying',
  checksums: 'computing checksums',
  add: 'adding the backup',
};

function asText(result: BackupResult, seconds: number): string {
  const { backup, isNew } = result;
  const { manifest } = backup;
  const { base, reason, ranges, volume, image } = manifest;
  const method = base === null ? `full${reason === null ? '' : `: ${reason}`}` : `delta from ${base.snapshotId}`;
  return [
    ...(isNew ? [] : ['the snapshot already has a backup']),
    `image     ${imagePathOf(backup)}`,
    `method    ${method}`,
    `copied    ${ranges.count} ranges, ${withHumanSize(ranges.bytes)} of ${humanSize(volume.sizeBytes)}`,
    `size      ${withHumanSize(image.bytes)}`,
    ...(isNew ? [`time      ${seconds.toFixed(1)} s`] : []),
    '',
  ].join('\n');
}

/** Sizes are strings, because most JSON readers are inexact above 2^53. */
function jsonOf({ backup, isNew }: BackupResult, seconds: number | null): object {
  const { manifest, directory, name } = backup;
  const { base, method, reason, skipped, ranges, volume, snapshot, image } = manifest;
  return {
    manifest: join(directory, name),
    image: imagePathOf(backup),
    new: isNew,
    volume_id: volume.id,
    snapshot_id: snapshot.id,
    base_snapshot_id: base?.snapshotId ?? null,
    method,
    reason,
    skipped,
    ranges: ranges.count,
    range_bytes: ranges.bytes.toString(),
    listed_bytes: ranges.listedBytes.toString(),
    volume_bytes: volume.sizeBytes.toString(),
    image_bytes: image.bytes.toString(),
    ...(seconds === null ? {} : { seconds: Number(seconds.toFixed(3)) }),
  };
}
