/** `blockdelta cordon` and `blockdelta supersede`: tell a router that a volume is to take the place of another one, or has. */
import type { Command } from 'commander';
import type { RouterRpc, RouterRpcs } from '../base/csi/router-proto.js';
import { print } from './output.js';
import { ROUTER_ENDPOINT_HELP, withRouter } from './router-client.js';

const SUPERSEDE_HELP = `
From then on the old volume is not staged, also when its node comes back from being retired. Its data stays there.`;

const CORDON_HELP = `
Fails while the volume is in use. Then it is not staged any more, so that a last snapshot of it has all of its data and another
volume can take its place.`;

const EXIT_CODES = 'Exit codes: see docs/command-line.md; after a failure the command may be repeated.';

export function addSupersedeCommand(program: Command): void {
  const command = program.command('supersede');
  command
    .description('tell a router that a volume has taken the place of another one, which must not be used any more')
    .argument('<old>', 'id of the volume that is not to be used any more')
    .argument('<new>', 'id of the volume that has taken its place');
  asksRouter(command, SUPERSEDE_HELP).action((old_volume_id: string, new_volume_id: string) =>
    ask(
      command,
      'Supersede',
      { old_volume_id, new_volume_id },
      `volume ${new_volume_id} has taken the place of ${old_volume_id}, which is not staged any more`,
    ),
  );
}

export function addCordonCommand(program: Command): void {
  const command = program.command('cordon');
  command
    .description('tell a router that a volume is not to be used any more, because another one is to take its place')
    .argument('<volume>', 'id of the volume')
    .option('--undo', 'the volume may be used again, unless another one has taken its place');
  asksRouter(command, CORDON_HELP).action((volume_id: string, { undo = false }: { undo?: boolean }) =>
    ask(
      command,
      'Cordon',
      { volume_id, undo },
      `volume ${volume_id} ${undo ? 'may be used' : 'is not staged any more'}`,
    ),
  );
}

const asksRouter = (command: Command, help: string): Command =>
  command.option('--endpoint <endpoint>', ROUTER_ENDPOINT_HELP).addHelpText('after', `${help}\n\n${EXIT_CODES}`);

async function ask<R extends RouterRpc>(
  command: Command,
  rpc: R,
  request: RouterRpcs[R][0],
  done: string,
): Promise<void> {
  process.exitCode = await withRouter(command, async (router) => {
    await router.call(rpc, request);
    await print(`${done}\n`);
  });
}
