/** `blockdelta supersede OLD NEW`: tells a router that a recovered volume has taken the place of the one that it was made for. */
import { Client, credentials } from '@grpc/grpc-js';
import type { Command } from 'commander';
import { supersedeMethod } from '../base/csi/router-proto.js';
import { socketPathOf } from './endpoint.js';
import { runToStatus } from './failures.js';
import { print } from './output.js';
import { socketProblem } from './socket.js';

const DEADLINE_MS = 60_000;

const HELP = `
From then on the old volume is not staged, also when its node comes back from being retired. Its data stays there.

Exit codes: see docs/command-line.md; after a failure the command may be repeated.`;

export function addSupersedeCommand(program: Command): void {
  const command = program.command('supersede');
  command
    .description('tell a router that a volume has taken the place of another one, which must not be used any more')
    .argument('<old>', 'id of the volume that is not to be used any more')
    .argument('<new>', 'id of the volume that has taken its place')
    .option('--endpoint <endpoint>', "the router's socket, unix:///path (default: CSI_ENDPOINT)")
    .addHelpText('after', HELP)
    .action(async (old_volume_id: string, new_volume_id: string, { endpoint }: { endpoint?: string }) => {
      const socketPath = socketPathOf(command, endpoint);
      process.exitCode = await runToStatus(async () => {
        const problem = await socketProblem(socketPath);
        if (problem !== null) throw new Error(problem.message);
        await supersede(socketPath, { old_volume_id, new_volume_id });
        await print(`volume ${new_volume_id} has taken the place of ${old_volume_id}, which is not staged any more\n`);
      });
    });
}

function supersede(socketPath: string, request: object): Promise<unknown> {
  const client = new Client(`unix://${socketPath}`, credentials.createInsecure(), {
    'grpc.default_authority': 'localhost',
  });
  const { path, requestSerialize, responseDeserialize } = supersedeMethod();
  const deadline = Date.now() + DEADLINE_MS;
  const answer = new Promise((resolve, reject) => {
    client.makeUnaryRequest(path, requestSerialize, responseDeserialize, request, { deadline }, (error, response) =>
      error === null ? resolve(response) : reject(error),
    );
  });
  return answer.finally(() => client.close());
}
