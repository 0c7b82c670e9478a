/** `blockdelta restore`: writes a backup to a file, a block device, a new volume or the volume that it is of. */
import type { Command } from 'commander';
import { openDevice } from '../../tools/backup/device-target.js';
import { assertIntact, restoreToDevice, restoreToFile, restoreToVolume } from '../../tools/backup/restore.js';
import { type ChosenBackup, chooseBackup } from '../../tools/backup/select.js';
import { CsiDriver } from '../../tools/client/csi-driver.js';
import { socketPathOf } from '../endpoint.js';
import { runToStatus } from '../failures.js';
import { complain, harmless, print } from '../output.js';
import { parsePath } from '../paths.js';
import { ProgressLine } from '../progress.js';
import { openRuntimeDirectory } from '../runtime-directory.js';
import { runInPlace } from './in-place.js';
import {
  type AccessOptions,
  addAccess,
  addChoice,
  ENDPOINT_HELP,
  JSON_HELP,
  parseRepository,
  REPOSITORY_HELP,
  suggestTo,
  withRepository,
} from './shared-options.js';
import { TransferProgress } from './transfer-progress.js';

interface RestoreCommandOptions extends AccessOptions {
  /** Either this or `inPlace` is given. */
  to?: string;
  inPlace: boolean;
  unprotected: boolean;
  keepSnapshot: boolean;
  volume: string;
  snapshot: string;
  endpoint?: string;
  force: boolean;
  json: boolean;
}

const HELP = `
--to volume makes a new volume by the driver and prints its id; its name is NAME, or
'restore', with a random part. A file appears under its name when it is complete.
--in-place takes a snapshot of the volume, writes what it holds otherwise than the backup,
and compares it. Nobody can use the volume until that is done; after a failure, the same
command finishes it.

Exit codes:
  0    everything was restored
  1    another failure
  2    wrong usage
  4    there is no such backup
  5    the backup is damaged or its chain is not complete, others can write to its directory,
       or the target cannot take it, or is in use
  6    cannot reach the driver
  8    the remote failed
  130  stopped by SIGINT or SIGTERM`;

export function addRestoreCommand(program: Command): void {
  const command = program
    .command('restore')
    .description('write a backup to a file, a block device, a new volume, or back to its own volume')
    .argument('<repository>', REPOSITORY_HELP, parseRepository)
    .option('--to <target>', 'a file, a block device, or volume[:NAME]', parseTarget)
    .option('--in-place', 'write what differs to the volume that the backup is of, which nobody uses', false)
    .option(
      '--unprotected',
      'with --in-place: accept a driver that cannot keep others from the volume meanwhile',
      false,
    )
    .option('--keep-snapshot', 'with --in-place: keep the snapshot of what the volume held before', false);
  addAccess(addChoice(suggestTo(command)))
    .option('--endpoint <endpoint>', `${ENDPOINT_HELP}, for --to volume and --in-place`)
    .option(
      '--force',
      'replace a file that exists, or write to a device with larger sectors than the volume had',
      false,
    )
    .option('--json', JSON_HELP, false)
    .addHelpText('after', HELP)
    .action(async (location: string, options: RestoreCommandOptions) => {
      const { to, endpoint, snapshot: snapshotId, volume: volumeId } = options;
      const problem = usageProblem(options);
      if (problem !== null) command.error(`error: ${problem}`);
      const prefix = to === undefined ? null : volumeNameIn(to);
      const socketPath = to !== undefined && prefix === null ? null : socketPathOf(command, endpoint);
      process.exitCode = await runToStatus((signal) =>
        withRepository(location, options, signal, async (repository) => {
          const chosen = await chooseBackup(repository, { volumeId, snapshotId });
          if (to !== undefined) return restore(chosen, { ...options, to }, { prefix, socketPath }, signal);
          const access = options.allowShared ? ['--allow-shared'] : [];
          return runInPlace(chosen, { ...options, socketPath: socketPath ?? '', location, access }, signal);
        }),
      );
    });
}

/** Null if the options go together. */
function usageProblem({
  to,
  inPlace,
  unprotected,
  keepSnapshot,
  snapshot,
  force,
}: RestoreCommandOptions): string | null {
  if (to === undefined && !inPlace) return "required option '--to <target>' not specified";
  if (to !== undefined && inPlace) return '--to and --in-place exclude each other';
  if (!inPlace && (unprotected || keepSnapshot)) return '--unprotected and --keep-snapshot go with --in-place';
  if (inPlace && force) return '--in-place has no --force';
  if (inPlace && snapshot === '') return '--in-place overwrites a volume, so it needs --snapshot';
  return null;
}

const parseTarget = (value: string): string => (volumeNameIn(value) === null ? parsePath(value) : value);

/** The start of the new volume's name; null if the target is a path. */
function volumeNameIn(target: string): string | null {
  const match = /^volume(?::(.*))?$/.exec(target);
  return match === null ? null : match[1] || 'restore';
}

async function restore(
  chosen: ChosenBackup,
  options: RestoreCommandOptions & { to: string },
  { prefix, socketPath }: { prefix: string | null; socketPath: string | null },
  signal: AbortSignal,
): Promise<void> {
  await verified(chosen, signal);
  const { sizeBytes } = chosen.backup.manifest.volume;
  const writing = new TransferProgress('restoring', sizeBytes);
  const line = new ProgressLine(() => writing.state);
  const onProgress = (share: number): void => {
    writing.done = BigInt(Math.floor(Number(sizeBytes) * share));
  };
  let target = options.to;
  let isPartial = false;
  const device = prefix === null ? await openDevice(target) : null;
  const onNotice = (message: string): void => {
    line.clear();
    complain(message);
  };
  const how = { signal, onProgress, onNotice, force: options.force };
  try {
    if (prefix !== null && socketPath !== null) {
      const driver = new CsiDriver(socketPath, signal);
      try {
        target = await restoreToVolume(chosen, { driver, runtime: await openRuntimeDirectory(), name: prefix }, how);
      } finally {
        driver.close();
      }
    } else if (device !== null) {
      const onWriting = (): void => {
        isPartial = true;
      };
      await restoreToDevice(chosen, device, { ...how, onWriting });
      isPartial = false;
    } else {
      const to = { path: target, replace: options.force };
      await restoreToFile(chosen, to, { signal, onProgress });
    }
  } finally {
    line.end();
    await device?.file.close();
    if (isPartial) complain(`${target} may hold a part of the backup: restore it again before it is used`);
  }
  const { snapshot } = chosen.backup.manifest;
  const images = chosen.chain.length;
  const result = { snapshot: snapshot.id, target, size_bytes: `${sizeBytes}`, images };
  await print(
    options.json
      ? `${JSON.stringify(result)}\n`
      : harmless(`restored snapshot ${snapshot.id} to ${target}: ${sizeBytes} bytes from ${images} images\n`),
  );
}

async function verified(chosen: ChosenBackup, signal: AbortSignal): Promise<void> {
  const total = chosen.chain.reduce((sum, { manifest }) => sum + manifest.image.bytes, 0n);
  const progress = new TransferProgress('verifying', total);
  const line = new ProgressLine(() => progress.state);
  try {
    const onProgress = (bytes: bigint): void => {
      progress.done = bytes;
    };
    await assertIntact(chosen, { signal, onProgress });
  } finally {
    line.end();
  }
}
