/**
 * A correct CSI driver, small and slow, that shares only the CSI definition with the plugin. The
 * conformance suite must pass it. A deviation replaces parts of it.
 */
import { mkdirSync } from 'node:fs';
import { promisify } from 'node:util';
import {
  type handleUnaryCall,
  Server,
  ServerCredentials,
  status,
  type UntypedServiceImplementation,
} from '@grpc/grpc-js';
import protobuf from 'protobufjs';
import { csiProto } from '../../../src/base/csi/proto.js';
import type { ServiceName } from '../../../src/base/csi/service.js';
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
    const state = this.#state;
    this.#serve('Identity', this.#unary(identityRpcs(state)));
    this.#serve('Controller', this.#unary(controllerRpcs(state)));
    this.#serve('Node', this.#unary(nodeRpcs(state)));
    if (state.has('GROUP_CONTROLLER_SERVICE')) {
      this.#serve('GroupController', this.#unary(groupRpcs(state)));
    }
    if (state.has('SNAPSHOT_METADATA_SERVICE')) this.#serve('SnapshotMetadata', this.#streams());
  }

  /** Starts a driver that keeps its files in the directory, which it creates. */
  static async start(directory: string, deviation: Deviation = {}): Promise<FakeDriver> {
    mkdirSync(directory, { recursive: true });
    const driver = new FakeDriver(directory, deviation);
    const [address, insecure] = [`unix://${driver.socketPath}`, ServerCredentials.createInsecure()];
    await promisify(driver.#server.bindAsync).call(driver.#server, address, insecure);
    return driver;
  }

  /** Ends all calls and removes all devices and mounts. The files stay. */
  stop(): void {
    this.#server.forceShutdown();
    this.#state.release();
  }

  #unary(rpcs: Rpcs): UntypedServiceImplementation {
    const handlers = Object.entries(rpcs).map(([name, correct]) => {
      const rpc = this.deviation.rpc?.(name, correct, this.#state) ?? correct;
      const handler: handleUnaryCall<Message, Message> = async ({ request }, answer) => {
        try {
          answer(null, await rpc(request));
        } catch (thrown) {
          answer(this.#refused(thrown));
        }
      };
      return [name, handler];
    });
    return Object.fromEntries(handlers);
  }

  #streams(): UntypedServiceImplementation {
    const correct = metadataSteps(this.#state);
    const steps = { ...correct, ...this.deviation.metadata?.(correct, this.#state) };
    const handler = (call: MetadataCall): void => {
      stream(steps, call)
        .then(() => call.end())
        .catch((thrown: unknown) => call.emit('error', this.#refused(thrown)));
    };
    return { GetMetadataAllocated: handler, GetMetadataDelta: handler };
  }

  /** gRPC answers UNIMPLEMENTED for an RPC without a handler. */
  #serve(service: ServiceName, handlers: UntypedServiceImplementation): void {
    const { unserved = [] } = this.deviation;
    const served = Object.entries(handlers).filter(([name]) => !unserved.includes(name));
    const methods = Object.entries(csiProto().services[service]).map(([name, method]) => {
      const responseSerialize = (message: Message) =>
        padded(method.responseSerialize(message), message['padding'] ?? 0);
      return [name, { ...method, responseSerialize }];
    });
    this.#server.addService(Object.fromEntries(methods), Object.fromEntries(served));
  }

  #refused(thrown: unknown): Refusal {
    const correct = thrown instanceof Refusal ? thrown : new Refusal(status.INTERNAL, `fake driver: ${thrown}`);
    return this.deviation.refuse?.(correct) ?? correct;
  }
}

function identityRpcs(state: State): Rpcs {
  const services = ['CONTROLLER_SERVICE', 'GROUP_CONTROLLER_SERVICE', 'SNAPSHOT_METADATA_SERVICE'].filter((type) =>
    state.has(type),
  );
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
