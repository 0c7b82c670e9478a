/** `blockdelta verify`: examines backups, and compares one with its snapshot byte by byte. */
import type { Command } from 'commander';
import { CsiError } from '../../base/errors.js';
import type { Repository } from '../../tools/backup/repository.js';
import { chooseBackup } from '../../tools/backup/select.js';
import { imagePathOf, type Problem } from '../../tools/backup/stored-backup.js';
import { verifyVolume } from '../../tools/backup/verify.js';
import { CsiDriver } from '../../tools/client/csi-driver.js';
import { publishSnapshot, removeLeftVolumes } from '../../tools/client/published-volume.js';
import { describeSnapshot } from '../../tools/client/snapshot-info.js';
import { compareImages } from '../../tools/nbd/image.js';
import { socketPathOf } from '../endpoint.js';
import { runToStatus } from '../failures.js';
import { harmless, print } from '../output.js';
import { ProgressLine } from '../progress.js';
import { openRuntimeDirectory } from '../runtime-directory.js';
import {
  type AccessOptions,
  addAccess,
  ENDPOINT_HELP,
  JSON_HELP,
  parseRepository,
  REPOSITORY_HELP,
  VOLUME_HELP,
  withRepository,
} from './shared-options.js';
import { TransferProgress } from './transfer-progress.js';

interface VerifyCommandOptions extends AccessOptions {
  volume: string;
  against?: string;
  endpoint?: string;
  json: boolean;
}

const HELP = `
Exit codes:
  0    nothing is wrong
  1    another failure
  2    wrong usage
  4    there is no such directory, backup or snapshot
  5    something is damaged, missing or different, and each line names a file; or others can
       write to the directory
  6    cannot reach the driver
  8    the remote failed
  130  stopped by SIGINT or SIGTERM`;

export function addVerifyCommand(program: Command): void {
  const command = program
    .command('verify')
    .description('examine backups: chains, checksums and tables of images')
    .argument('<repository>', REPOSITORY_HELP, parseRepository)
    .option('--volume <id>', VOLUME_HELP, '')
    .option('--against <snapshot>', 'compare the backup of this snapshot with it, byte by byte')
    .option('--endpoint <endpoint>', `${ENDPOINT_HELP}, for --against`)
    .option('--json', JSON_HELP, false);
  addAccess(command)
    .addHelpText('after', HELP)
    .action(async (location: string, options: VerifyCommandOptions) => {
      const { against } = options;
      const socketPath = against === undefined ? null : socketPathOf(command, options.endpoint);
      process.exitCode = await runToStatus((signal) =>
        withRepository(location, { ...options, readsAll: true }, signal, (repository) =>
          verify(repository, options, socketPath, signal),
        ),
      );
    });
}

async function verify(
  repository: Repository,
  options: VerifyCommandOptions,
  socketPath: string | null,
  signal: AbortSignal,
): Promise<void> {
  const all = await repository.all();
  const volumes = all.filter(({ volumeId }) => ['', volumeId].includes(options.volume));
  if (volumes.length === 0) throw CsiError.notFound(`${repository.location} has no backups to verify`);
  const images = volumes.flatMap(({ backups }) => backups);
  const total = images.reduce((sum, { manifest }) => sum + manifest.image.bytes, 0n);
  const progress = new TransferProgress('verifying', total);
  const line = new ProgressLine(() => progress.state);
  const problems: Problem[] = [];
  let compared: string | null = null;
  try {
    let before = 0n;
    for (const volume of volumes) {
      const start = before;
      const onProgress = (bytes: bigint): void => {
        progress.done = start + bytes;
      };
      problems.push(...(await verifyVolume(volume, { signal, onProgress })));
      before += volume.backups.reduce((sum, { manifest }) => sum + manifest.image.bytes, 0n);
    }
    if (options.against !== undefined && socketPath !== null && problems.length === 0) {
      const choice = { volumeId: options.volume, snapshotId: options.against };
      const { path, difference } = await compare(repository, choice, socketPath, signal);
      compared = path;
      if (difference !== null)
        problems.push({ path, found: `differs from snapshot ${options.against}: ${difference}` });
    }
  } finally {
    line.end();
  }
  const result = { volumes: volumes.length, backups: images.length, problems, compared };
  const equal =
    compared === null || problems.length > 0
      ? ''
      : `compared ${compared} with snapshot ${options.against}, byte by byte: they are equal\n`;
  await print(options.json ? `${JSON.stringify(result)}\n` : harmless(`${equal}${textOf(result)}`));
  if (problems.length > 0) {
    throw CsiError.failedPrecondition(`${counted(problems.length, 'problem')} found`);
  }
}

function textOf({ volumes, backups, problems }: { volumes: number; backups: number; problems: Problem[] }): string {
  const lines = problems.map(({ path, found }) => `PROBLEM  ${path}: ${found}\n`);
  const end = problems.length === 0 ? 'nothing is wrong' : counted(problems.length, 'problem');
  return `${lines.join('')}verified ${counted(backups, 'backup')} of ${counted(volumes, 'volume')}: ${end}\n`;
}

const counted = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? '' : 's'}`;

/** Compares the image of a snapshot's backup with the snapshot, byte by byte. */
async function compare(
  repository: Repository,
  choice: { volumeId: string; snapshotId: string },
  socketPath: string,
  signal: AbortSignal,
): Promise<{ path: string; difference: string | null }> {
  const { backup, chain, volume } = await chooseBackup(repository, choice);
  const driver = new CsiDriver(socketPath, signal);
  try {
    const runtime = await openRuntimeDirectory();
    await removeLeftVolumes(driver, runtime);
    const published = await publishSnapshot(driver, runtime, await describeSnapshot(driver, choice.snapshotId));
    try {
      const path = imagePathOf(backup);
      const device = { device: published.devicePath };
      const { isSame, detail } = await volume.images.open(chain, (images) =>
        compareImages({ chain: images }, device, signal),
      );
      return { path, difference: isSame ? null : detail };
    } finally {
      await published.close();
    }
  } finally {
    driver.close();
  }
}
