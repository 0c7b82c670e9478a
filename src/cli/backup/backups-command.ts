/** `blockdelta backups`: lists what a directory of backups holds. */
import type { Command } from 'commander';
import { humanSize } from '../../base/human-size.js';
import { cell, harmless, plainJson } from '../../base/plain-text.js';
import type { Backup, VolumeBackups } from '../../tools/backup/chains.js';
import { Repository } from '../../tools/backup/repository.js';
import { runToStatus } from '../failures.js';
import { complain, print } from '../output.js';
import { parsePath } from '../paths.js';
import { addAccess, JSON_HELP, VOLUME_HELP } from './shared-options.js';

const HELP = `
Exit codes:
  0  the list was printed, also if some manifests are damaged (see blockdelta verify)
  2  wrong usage
  4  there is no such directory
  5  others can write to the directory`;

interface ListOptions {
  volume: string;
  json: boolean;
  allowShared: boolean;
}

export function addBackupsCommand(program: Command): void {
  const command = program
    .command('backups')
    .description('list the backups in a directory')
    .argument('<directory>', 'the directory of the backups', parsePath)
    .option('--volume <id>', VOLUME_HELP, '')
    .option('--json', JSON_HELP, false);
  addAccess(command)
    .addHelpText('after', HELP)
    .action(async (directory: string, { volume, json, allowShared }: ListOptions) => {
      process.exitCode = await runToStatus(async () => {
        const all = await (await Repository.open(directory, { allowShared })).all();
        const volumes = all.filter(({ volumeId }) => ['', volumeId].includes(volume));
        await print(json ? `${plainJson(JSON.stringify(volumes.map(jsonOf)))}\n` : harmless(tableOf(volumes)));
        for (const { problems } of volumes) for (const { found } of problems) complain(cell(found));
      });
    });
}

function jsonOf({ volumeId, directory, backups, problems }: VolumeBackups): object {
  const rows = backups.map(({ manifest, name }) => ({
    snapshot: manifest.snapshot.id,
    creation_time: manifest.snapshot.creationTime,
    method: manifest.method,
    base: manifest.base?.snapshotId ?? null,
    reason: manifest.reason,
    size_bytes: `${manifest.volume.sizeBytes}`,
    image_bytes: `${manifest.image.bytes}`,
    manifest: name,
    image: manifest.image.file,
  }));
  return { volume: volumeId, directory, backups: rows, problems };
}

function tableOf(volumes: readonly VolumeBackups[]): string {
  const lines = volumes.flatMap(({ volumeId, backups }) => [`volume ${cell(volumeId)}`, ...backups.map(lineOf)]);
  return lines.length === 0 ? 'no backups\n' : `${lines.join('\n')}\n`;
}

function lineOf({ manifest }: Backup): string {
  const { snapshot, method, base, image, reason } = manifest;
  const size = humanSize(image.bytes).padStart(10);
  const based = base === null ? '' : ` on ${cell(base.snapshotId)}`;
  const why = reason === null ? '' : ` (${cell(reason)})`;
  return `  ${snapshot.creationTime}  ${method.padEnd(5)} ${size}  ${cell(snapshot.id)}${based}${why}`;
}
