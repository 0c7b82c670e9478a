/**
 * A CSI driver that only records its calls, for tests of which calls the conformance runner makes, and in
 * which order.
 */
import { promisify } from 'node:util';
import * as grpc from '@grpc/grpc-js';
import { clientServices } from '../../src/base/csi/proto.js';
import type { Message } from './csi-client.js';
import type { Workspace } from './workspace.js';

export interface RecordedCall {
  rpc: string;
  request: Message;
}

/** `remainingMs`: of the caller's deadline, when the call arrived. */
type Answer = (request: Message, remainingMs: number) => Message | Promise<Message>;
export type Answers = Readonly<Record<string, Answer>>;

export class RecordingDriver {
  /** In the order they came. */
  readonly calls: RecordedCall[] = [];
  readonly #server = new grpc.Server();
  #made = 0;
  readonly #answers: Record<string, Answer> = {
    GetPluginInfo: () => ({ name: 'recorder.example', vendor_version: '1' }),
    GetPluginCapabilities: () => ({ capabilities: [{ service: { type: 'CONTROLLER_SERVICE' } }] }),
    ControllerGetCapabilities: () => ({
      capabilities: ['CREATE_DELETE_VOLUME', 'CREATE_DELETE_SNAPSHOT'].map((type) => ({ rpc: { type } })),
    }),
    NodeGetCapabilities: () => ({ capabilities: [{ rpc: { type: 'STAGE_UNSTAGE_VOLUME' } }] }),
    NodeGetInfo: () => ({ node_id: 'node' }),
    CreateVolume: () => ({ volume: { volume_id: this.#id('volume'), capacity_bytes: 1024 } }),
    CreateSnapshot: ({ source_volume_id }) => ({
      snapshot: { snapshot_id: this.#id('snapshot'), source_volume_id, ready_to_use: true },
    }),
  };

  private constructor(readonly endpoint: string) {}

  /** `answers` take the place of the driver's own; throwing an object is a refusal. */
  static async start(workspace: Workspace, answers: Answers = {}, name = 'recorder'): Promise<RecordingDriver> {
    const driver = new RecordingDriver(`unix://${workspace.path(`${name}.sock`)}`);
    Object.assign(driver.#answers, answers);
    for (const definition of Object.values(clientServices())) {
      const handlers = Object.keys(definition).map((rpc) => [rpc, driver.#handler(rpc)]);
      driver.#server.addService(definition, Object.fromEntries(handlers));
    }
    const insecure = grpc.ServerCredentials.createInsecure();
    await promisify(driver.#server.bindAsync).call(driver.#server, driver.endpoint, insecure);
    return driver;
  }

  stop(): void {
    this.#server.forceShutdown();
  }

  /** The calls that change something, as "RPC id". */
  get changes(): string[] {
    return this.calls
      .filter(({ rpc }) => !/Get|Probe/.test(rpc))
      .map(({ rpc, request }) => `${rpc} ${idOf(request)}`.trim());
  }

  #id(kind: string): string {
    this.#made += 1;
    return `${kind}-${this.#made}`;
  }

  #handler(rpc: string) {
    return async (
      call: Pick<grpc.ServerUnaryCall<Message, Message>, 'request' | 'getDeadline'>,
      reply: (error: grpc.ServiceError | null, answer?: Message) => void,
    ): Promise<void> => {
      const remainingMs = Number(call.getDeadline()) - Date.now();
      this.calls.push({ rpc, request: call.request });
      try {
        reply(null, (await this.#answers[rpc]?.(call.request, remainingMs)) ?? {});
      } catch (refusal) {
        reply(refusal as grpc.ServiceError);
      }
    };
  }
}

function idOf(request: Message): string {
  return request['snapshot_id'] ?? request['volume_id'] ?? '';
}
