/** `blockdelta restore`: writes a backup to a file, a block device or a new volume. */
import type { Command } from 'commander';
import { openDevice } from '../../tools/backup/device-target.js';
import type { Repository } from '../../tools/backup/repository.js';
import { assertIntact, restoreToDevice, restoreToFile, restoreToVolume } from '../../tools/backup/restore.js';
import { type ChosenBackup, chooseBackup } from '../../tools/backup/select.js';
import { CsiDriver } from '../../tools/client/csi-driver.js';
import { socketPathOf } from '../endpoint.js';
import { runToStatus } from '../failures.js';
import { complain, harmless, print } from '../output.js';
import { parsePath } from '../paths.js';
import { ProgressLine } from '../progress.js';
import { openRuntimeDirectory } from '../runtime-directory.js';
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
  to: string;
  volume: string;
  snapshot: string;
  endpoint?: string;
  force: boolean;
  json: boolean;
}

const HELP = `
--to volume makes a new volume by the driver and prints its id; its name is NAME, or
'restore', with a random part. A file appears under its name when it is complete.

Exit codes:
  0    everything was restored
  1    another failure
  2    wrong usage
  4    there is no such backup
  5    the backup is damaged or its chain is not complete, others can write to its directory,
       or the target cannot take it
  6    cannot reach the driver
  8    the remote failed
  130  stopped by SIGINT or SIGTERM`;

export function addRestoreCommand(program: Command): void {
  const command = program
    .command('restore')
    .description('write a backup to a file, a block device or a new volume')
    .argument('<repository>', REPOSITORY_HELP, parseRepository)
    .requiredOption('--to <target>', 'a file, a block device, or volume[:NAME]', parseTarget);
  addAccess(addChoice(suggestTo(command)))
    .option('--endpoint <endpoint>', `${ENDPOINT_HELP}, for --to volume`)
    .option(
      '--force',
      'replace a file that exists, or write to a device with larger sectors than the volume had',
      false,
    )
    .option('--json', JSON_HELP, false)
    .addHelpText('after', HELP)
    .action(async (location: string, options: RestoreCommandOptions) => {
      const prefix = volumeNameIn(options.to);
      const socketPath = prefix === null ? null : socketPathOf(command, options.endpoint);
      process.exitCode = await runToStatus((signal) =>
        withRepository(location, options, signal, (repository) =>
          restore(repository, options, { prefix, socketPath }, signal),
        ),
      );
    });
}

const parseTarget = (value: string): string => (volumeNameIn(value) === null ? parsePath(value) : value);

/** The start of the new volume's name; null if the target is a path. */
function volumeNameIn(target: string): string | null {
  const match = /^volume(?::(.*))?$/.exec(target);
  return match === null ? null : match[1] || 'restore';
}

async function restore(
  repository: Repository,
  options: RestoreCommandOptions,
  { prefix, socketPath }: { prefix: string | null; socketPath: string | null },
  signal: AbortSignal,
): Promise<void> {
  const { snapshot: snapshotId, volume: volumeId } = options;
  const chosen = await chooseBackup(repository, { volumeId, snapshotId });
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
