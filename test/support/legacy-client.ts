/** A client of CSI 0.3 or 0.1 over a real socket, built from the proto of that version alone. */
import * as grpc from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import { packagePath } from '../../src/base/package-root.js';
import type { Message } from './csi-client.js';

export type OldVersion = '0.3' | '0.1';

const PACKAGES = { '0.3': 'csi.v0', '0.1': 'csi' } as const;
const SERVICES = ['Identity', 'Controller', 'Node'] as const;
/** In every request of 0.1 but one. */
const VERSION = { major: 0, minor: 1, patch: 0 };
const DEADLINE_MS = 60_000;

type Method = grpc.MethodDefinition<Message, Message>;

export class LegacyClient {
  readonly #client: grpc.Client;
  readonly #methods = new Map<string, Method>();

  constructor(
    endpoint: string,
    readonly version: OldVersion,
  ) {
    this.#client = new grpc.Client(endpoint, grpc.credentials.createInsecure(), {
      'grpc.use_local_subchannel_pool': 1,
    });
    const file = packagePath(`proto/csi-v${version}.proto`);
    const definitions = loadSync(file, { keepCase: true, longs: String, enums: String, defaults: true, oneofs: true });
    for (const service of SERVICES) {
      const methods = definitions[`${PACKAGES[version]}.${service}`] as grpc.ServiceDefinition;
      for (const [rpc, method] of Object.entries(methods)) this.#methods.set(rpc, method as Method);
    }
  }

  get rpcs(): string[] {
    return [...this.#methods.keys()];
  }

  /** In 0.1 the request gets its version, unless it has one. Rejects with the status. */
  call(rpc: string, request: Message = {}): Promise<Message> {
    const method = this.#methods.get(rpc);
    if (method === undefined) throw new Error(`CSI ${this.version} has no RPC ${rpc}`);
    const isVersioned = this.version === '0.1' && rpc !== 'GetSupportedVersions';
    const message = isVersioned ? { version: VERSION, ...request } : request;
    const { path, requestSerialize, responseDeserialize } = method;
    const options = { deadline: Date.now() + DEADLINE_MS };
    return new Promise((resolve, reject) => {
      const end = (error: unknown, answer?: Message): void => (answer === undefined ? reject(error) : resolve(answer));
      const rest = [requestSerialize, responseDeserialize, message, options, end] as const;
      this.#client.makeUnaryRequest(path, ...rest);
    });
  }

  close(): void {
    this.#client.close();
  }
}
