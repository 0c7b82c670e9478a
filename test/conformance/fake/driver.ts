/**
 * A correct CSI driver, small and slow, that shares only the CSI definition with the plugin. The
 * conformance suite must pass it. A deviation replaces parts of it.
 */
import { mkdir } from 'node:fs/promises';
import {
  type Metadata,
  Server,
  ServerCredentials,
  type ServerUnaryCall,
  type sendUnaryData,
  status,
  type UntypedHandleCall,
} from '@grpc/grpc-js';
import protobuf from 'protobufjs';
import { csiProto } from '../../../src/csi/proto.js';
import type { ServiceName } from '../../../src/csi/service.js';
import { controllerRpcs } from './controller.js';
import type { Deviation } from './defect.js';
import { groupRpcs } from './group.js';
import { type MetadataCall, metadataSteps, stream } from './metadata.js';
import { nodeRpcs } from './node.js';
import { type Message, Refusal, type Rpcs } from './refusal.js';
import { State } from './state.js';

export class FakeDriver {
  readonly socketPath: string;
  readonly #server = new Server();
  readonly #state: State;

  private constructor(
    directory: string,
    private readonly deviation: Deviation,
  ) {
    this.socketPath = `${directory}/csi.sock`;
    this.#state = new State(directory, deviation);
  }

  /** Starts a driver that keeps its files in the directory, which it creates. */
  static async start(directory: string, deviation: Deviation = {}): Promise<FakeDriver> {
    await mkdir(directory, { recursive: true });
    const driver = new FakeDriver(directory, deviation);
    await driver.#listen();
    return driver;
  }

  /** Ends all calls and removes all devices and mounts. The files stay. */
  async stop(): Promise<void> {
    this.#server.forceShutdown();
    await this.#state.release();
  }

  async #listen(): Promise<void> {
    const state = this.#state;
    this.#serve('Identity', identityRpcs(state));
    this.#serve('Controller', controllerRpcs(state));
    this.#serve('Node', nodeRpcs(state));
    if (state.has('GROUP_CONTROLLER_SERVICE')) this.#serve('GroupController', groupRpcs(state));
    if (state.has('SNAPSHOT_METADATA_SERVICE')) this.#serveMetadata();
    await new Promise<void>((resolve, reject) => {
      this.#server.bindAsync(
        `unix://${this.socketPath}`,
        ServerCredentials.createInsecure(),
        (error) => (error === null ? resolve() : reject(error)),
      );
    });
  }

  #serve(service: ServiceName, correct: Rpcs): void {
    for (const [name, made] of Object.entries(correct)) {
      const rpc = this.deviation.rpc?.(name, async (request) => made(request), this.#state) ?? made;
      this.#register(service, name, (call: Unary, answer: sendUnaryData<Message>) => {
        Promise.resolve()
          .then(() => rpc(call.request))
          .then((response) => answer(null, response))
          .catch((thrown: unknown) => answer(this.#refused(thrown)));
      });
    }
  }

  #serveMetadata(): void {
    const correct = metadataSteps(this.#state);
    const steps = { ...correct, ...this.deviation.metadata?.(correct, this.#state) };
    for (const name of ['GetMetadataAllocated', 'GetMetadataDelta']) {
      this.#register('SnapshotMetadata', name, (call: MetadataCall) => {
        stream(steps, call)
          .then(() => call.end())
          .catch((thrown: unknown) => call.emit('error', this.#refused(thrown)));
      });
    }
  }

  #register(service: ServiceName, name: string, handler: unknown): void {
    const method = csiProto().services[service][name];
    if (method === undefined) throw new Error(`there is no ${service}.${name}`);
    if (this.deviation.unserved?.includes(name)) return;
    this.#server.register(
      method.path,
      handler as UntypedHandleCall,
      (message: Message) => padded(method.responseSerialize(message), message['padding'] ?? 0),
      method.requestDeserialize,
      method.responseStream ? 'serverStream' : 'unary',
    );
  }

  #refused(thrown: unknown): { code: status; details: string; metadata: Metadata } {
    const correct =
      thrown instanceof Refusal ? thrown : new Refusal(status.INTERNAL, `fake driver: ${thrown}`);
    return this.deviation.refuse?.(correct) ?? correct;
  }
}

function identityRpcs(state: State): Rpcs {
  const services = [
    'CONTROLLER_SERVICE',
    'GROUP_CONTROLLER_SERVICE',
    'SNAPSHOT_METADATA_SERVICE',
  ].filter((type) => state.has(type));
  return {
    GetPluginInfo: () => ({ name: 'correct.fake.example', vendor_version: '1.0.0' }),
    GetPluginCapabilities: () => ({
      capabilities: [
        ...services.map((type) => ({ service: { type } })),
        ...(state.has('EXPAND_VOLUME') ? [{ volume_expansion: { type: 'ONLINE' } }] : []),
      ],
    }),
    Probe: () => ({ ready: { value: true } }),
  };
}

/** The message followed by that many bytes in an unknown field. */
function padded(encoded: Buffer, bytes: number): Buffer {
  if (bytes === 0) return encoded;
  const field = protobuf.Writer.create()
    .uint32((2047 << 3) | 2)
    .bytes(Buffer.alloc(bytes))
    .finish();
  return Buffer.concat([encoded, field]);
}

type Unary = ServerUnaryCall<Message, Message>;
