/** A client of blockdelta.router.v1 (proto/router.proto), for commands that ask a router. */
import { Client, credentials } from '@grpc/grpc-js';
import type { Command } from 'commander';
import { type RouterRpc, type RouterRpcs, routerMethod } from '../base/csi/router-proto.js';
import { socketPathOf } from './endpoint.js';
import type { ExitCode } from './exit-codes.js';
import { runToStatus } from './failures.js';
import { socketProblem } from './socket.js';

export const ROUTER_ENDPOINT_HELP = "the router's socket, unix:///path (default: CSI_ENDPOINT)";

const DEADLINE_MS = 60_000;

/** Runs the work of a command with a client of its `--endpoint`. Resolves to the exit code: of the status, if a call has failed. */
export function withRouter(
  command: Command,
  work: (router: RouterClient, signal: AbortSignal) => Promise<void>,
): Promise<ExitCode> {
  const socketPath = socketPathOf(command, command.opts<{ endpoint?: string }>().endpoint);
  return runToStatus(async (signal) => {
    const problem = await socketProblem(socketPath);
    if (problem !== null) throw new Error(problem.message);
    const router = new RouterClient(socketPath);
    try {
      await work(router, signal);
    } finally {
      router.close();
    }
  });
}

export class RouterClient {
  readonly #client: Client;

  constructor(socketPath: string) {
    this.#client = new Client(`unix://${socketPath}`, credentials.createInsecure(), {
      'grpc.default_authority': 'localhost',
    });
  }

  /** Rejects with a ServiceError. */
  call<R extends RouterRpc>(rpc: R, request: RouterRpcs[R][0]): Promise<RouterRpcs[R][1]> {
    const { path, requestSerialize, responseDeserialize } = routerMethod(rpc);
    const deadline = Date.now() + DEADLINE_MS;
    return new Promise((resolve, reject) => {
      this.#client.makeUnaryRequest(
        path,
        requestSerialize,
        responseDeserialize,
        request,
        { deadline },
        (error, answer) => (error === null ? resolve(answer as RouterRpcs[R][1]) : reject(error)),
      );
    });
  }

  close(): void {
    this.#client.close();
  }
}
