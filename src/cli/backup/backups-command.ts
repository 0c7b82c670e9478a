/** `blockdelta backups`: lists what a directory of backups holds. */
import type { Command } from 'commander';
import { CsiError } from '../../base/errors.js';
import { humanSize } from '../../base/human-size.js';
import { cell, harmless, plainJson } from '../../base/plain-text.js';
import { chainOf, type VolumeBackups } from '../../tools/backup/chains.js';
import type { Repository } from '../../tools/backup/repository.js';
import type { Backup } from '../../tools/backup/stored-backup.js';
import { brokenBackups } from '../../tools/backup/verify.js';
import { runToStatus } from '../failures.js';
import { complain, print } from '../output.js';
import {
  type AccessOptions,
  addAccess,
  JSON_HELP,
  parseRepository,
  REPOSITORY_HELP,
  VOLUME_HELP,
  withRepository,
} from './shared-options.js';

const HELP = `
Exit codes:
  0  the list was printed, and every image is there with its size and header
  2  wrong usage
  4  there is no such directory
  5  backups are marked BROKEN, or manifests are damaged (see blockdelta verify), or others can
     write to the directory
  8  the remote failed`;

interface ListOptions extends AccessOptions {
  volume: string;
  json: boolean;
}

export function addBackupsCommand(program: Command): void {
  const command = program
    .command('backups')
    .description('list the backups in a repository')
    .argument('<repository>', REPOSITORY_HELP, parseRepository)
    .option('--volume <id>', VOLUME_HELP, '')
    .option('--json', JSON_HELP, false);
  addAccess(command)
    .addHelpText('after', HELP)
    .action(async (location: string, options: ListOptions) => {
      process.exitCode = await runToStatus((signal) =>
        withRepository(location, options, signal, (repository) => list(repository, options, signal)),
      );
    });
}

async function list(repository: Repository, { volume, json }: ListOptions, signal: AbortSignal): Promise<void> {
  const volumes = (await repository.all()).filter(({ volumeId }) => ['', volumeId].includes(volume));
  const listed = await Promise.all(volumes.map((each) => listOf(each, signal)));
  await print(json ? `${plainJson(JSON.stringify(listed.map(jsonOf)))}\n` : harmless(tableOf(listed)));
  for (const { problems } of volumes) for (const { found } of problems) complain(cell(found));
  const broken = listed.flatMap(({ rows }) => rows).filter((row) => row.broken !== null).length;
  const damaged = volumes.reduce((sum, { problems }) => sum + problems.length, 0);
  if (broken + damaged === 0) return;
  throw CsiError.failedPrecondition(
    `${broken} backups cannot be restored, and ${damaged} manifests are damaged: restore their files from another ` +
      'copy, or use the other backups; blockdelta verify reads every image in full',
  );
}

interface ListedVolume {
  volume: VolumeBackups;
  rows: ListedBackup[];
}

interface ListedBackup {
  backup: Backup;
  /** Why the backup cannot be restored; null if nothing is known against it. */
  broken: string | null;
  /** The backup and all that it is based on; null if one of them is missing. */
  chain: { length: number; bytes: bigint } | null;
}

async function listOf(volume: VolumeBackups, signal: AbortSignal): Promise<ListedVolume> {
  const broken = await brokenBackups(volume, signal);
  const rows = volume.backups.map((backup) => ({
    backup,
    broken: broken.get(backup) ?? null,
    chain: sizeOf(backup, volume),
  }));
  return { volume, rows };
}

function sizeOf(backup: Backup, volume: VolumeBackups): ListedBackup['chain'] {
  try {
    const chain = chainOf(backup, volume);
    return { length: chain.length, bytes: chain.reduce((sum, { manifest }) => sum + manifest.image.bytes, 0n) };
  } catch {
    return null;
  }
}

function jsonOf({ volume: { volumeId, directory, problems }, rows }: ListedVolume): object {
  const backups = rows.map(({ backup: { manifest, name }, broken, chain }) => ({
    snapshot: manifest.snapshot.id,
    creation_time: manifest.snapshot.creationTime,
    method: manifest.method,
    base: manifest.base?.snapshotId ?? null,
    reason: manifest.reason,
    size_bytes: `${manifest.volume.sizeBytes}`,
    image_bytes: `${manifest.image.bytes}`,
    chain_length: chain?.length ?? null,
    chain_bytes: chain === null ? null : `${chain.bytes}`,
    broken,
    manifest: name,
    image: manifest.image.file,
  }));
  return { volume: volumeId, directory, backups, problems };
}

function tableOf(volumes: readonly ListedVolume[]): string {
  const lines = volumes.flatMap(({ volume, rows }) => [`volume ${cell(volume.volumeId)}`, ...rows.map(lineOf)]);
  return lines.length === 0 ? 'no backups\n' : `${lines.join('\n')}\n`;
}

function lineOf({ backup: { manifest }, broken, chain }: ListedBackup): string {
  const { snapshot, method, base, image, reason } = manifest;
  const size = humanSize(image.bytes).padStart(10);
  const based = base === null ? '' : ` on ${cell(base.snapshotId)}`;
  const why = reason === null ? '' : ` (${cell(reason)})`;
  const whole = chain === null || chain.length === 1 ? '' : `, ${chain.length} images of ${humanSize(chain.bytes)}`;
  const state = broken === null ? '' : `\n    BROKEN: ${cell(broken)}`;
  return `  ${snapshot.creationTime}  ${method.padEnd(5)} ${size}  ${cell(snapshot.id)}${based}${whole}${why}${state}`;
}
