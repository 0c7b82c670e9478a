/** `blockdelta chain`: how other tools of qemu open the image of a backup. */
import { dirname } from 'node:path';
import type { Command } from 'commander';
import { CsiError } from '../../base/errors.js';
import { chainOf } from '../../tools/backup/chains.js';
import { DirectoryRepository } from '../../tools/backup/directory-repository.js';
import { imagePathOf, imagesOf } from '../../tools/backup/stored-backup.js';
import { chainName } from '../../tools/nbd/image-chain.js';
import { runToStatus } from '../failures.js';
import { print } from '../output.js';
import { parsePath } from '../paths.js';
import { addAccess } from './shared-options.js';

const HELP = `
The image may name a backing file that was pruned, because images never change. What is
printed names the files as they are now:

  qemu-img convert -O raw "$(blockdelta chain IMAGE)" volume.raw

Exit codes:
  0  the name was printed
  2  wrong usage
  4  there is no backup with that image
  5  its chain is not complete, or others can write to the directory`;

export function addChainCommand(program: Command): void {
  const command = program
    .command('chain')
    .description('print the name by which qemu opens an image and all that it is based on')
    .argument('<image>', 'the image of a backup', parsePath);
  addAccess(command)
    .addHelpText('after', HELP)
    .action(async (image: string, { allowShared }: { allowShared: boolean }) => {
      process.exitCode = await runToStatus(async () => {
        await print(`${await nameOf(image, allowShared)}\n`);
      });
    });
}

async function nameOf(image: string, allowShared: boolean): Promise<string> {
  const repository = await DirectoryRepository.open(dirname(dirname(image)), { allowShared });
  for (const volume of await repository.all()) {
    const all = [...volume.backups, ...volume.superseded];
    const backup = all.find((each) => imagePathOf(each) === image);
    if (backup !== undefined) return chainName(imagesOf(chainOf(backup, volume)));
  }
  throw CsiError.notFound(`${image} is not the image of a backup: no manifest beside it names it`);
}
