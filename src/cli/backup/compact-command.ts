/** `blockdelta compact`: makes the chain of a backup one image. */
import type { Command } from 'commander';
import { CsiError } from '../../base/errors.js';
import { cell } from '../../base/plain-text.js';
import type { VolumeBackups } from '../../tools/backup/chains.js';
import { type CompactPlan, planCompact } from '../../tools/backup/prune.js';
import type { Repository } from '../../tools/backup/repository.js';
import { runToStatus } from '../failures.js';
import {
  type AccessOptions,
  addAccess,
  addSpool,
  JSON_HELP,
  parseRepository,
  REPOSITORY_HELP,
  VOLUME_HELP,
  withRepository,
} from './shared-options.js';
import { changeVolumes } from './volume-changes.js';

interface CompactOptions extends AccessOptions {
  volume: string;
  snapshot: string;
  json: boolean;
}

const HELP = `
The backup becomes a full one, without its driver: a new image is made of all images of its
chain, and then its old image is removed. The backups below stay as they are, and those
above are based on the new image from then on.

Exit codes:
  0    done, or each of the backups was full already
  1    another failure, of one volume or more; every backup that is listed is still complete
  2    wrong usage
  4    there is no such directory or backup
  5    others can write to the directory, or a volume's manifests are damaged or contradict each
       other, or a chain is not complete, or an image is not as its manifest says: nothing of
       that volume was changed
  8    the remote failed; another run continues
  130  stopped by SIGINT or SIGTERM`;

export function addCompactCommand(program: Command): void {
  const command = program
    .command('compact')
    .description('make a backup full, from the images of its chain')
    .argument('<repository>', REPOSITORY_HELP, parseRepository)
    .option('--volume <id>', VOLUME_HELP, '')
    .option('--snapshot <id>', 'the snapshot whose backup is meant (default: the newest of each volume)', '')
    .option('--json', JSON_HELP, false);
  addSpool(addAccess(command))
    .addHelpText('after', HELP)
    .action(async (location: string, options: CompactOptions) => {
      process.exitCode = await runToStatus((signal) =>
        withRepository(location, options, signal, (repository) => compact(repository, options, signal)),
      );
    });
}

async function compact(
  repository: Repository,
  { volume: volumeId, snapshot, json }: CompactOptions,
  signal: AbortSignal,
): Promise<void> {
  const all = await repository.all();
  const isMeant = ({ backups, problems }: VolumeBackups): boolean =>
    backups.some(({ manifest }) => ['', manifest.snapshot.id].includes(snapshot)) ||
    (snapshot === '' && problems.length > 0);
  const volumes = all.filter((each) => ['', each.volumeId].includes(volumeId) && isMeant(each));
  if (volumes.length === 0) {
    const what = snapshot === '' ? 'no backups to compact' : `no backup of snapshot ${snapshot}`;
    throw CsiError.notFound(`${repository.location} has ${what}`);
  }
  const planOf = (volume: VolumeBackups): CompactPlan => planCompact(volume, snapshot);
  await changeVolumes(repository, { doing: 'compacting', volumes, planOf, json, jsonOf, textOf }, signal);
}

function jsonOf({ volume, compacted: { backup, images } }: CompactPlan): object {
  return { volume: volume.volumeId, snapshot: backup.manifest.snapshot.id, images, compacted: images > 1 };
}

function textOf({ volume, compacted: { backup, images } }: CompactPlan): string {
  const what = images > 1 ? `was made full, of ${images} images` : 'is full already';
  return `volume ${cell(volume.volumeId)}: the backup of snapshot ${cell(backup.manifest.snapshot.id)} ${what}\n`;
}
