/**
 * The unary calls of any CSI driver over one socket: each with a deadline, and repeated while the driver is busy or
 * restarts, as a conforming caller does. Knows how to call, and what a driver can do; not what calls are for.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { Client, credentials, Metadata, type ServiceError } from '@grpc/grpc-js';
import { clientServices } from '../../base/csi/proto.js';
import { CsiError, StatusCode } from '../../base/errors.js';

// biome-ignore lint/suspicious/noExplicitAny: messages are plain objects of the proto's shape
export type Message = Record<string, any>;

export interface DriverInfo {
  readonly name: string;
  readonly version: string;
  /** Empty: the socket serves no Node service. */
  readonly nodeId: string;
  /** Where volumes have to be accessible; null: the driver says nothing. */
  readonly topology: Message | null;
  readonly plugin: ReadonlySet<string>;
  readonly controller: ReadonlySet<string>;
  readonly node: ReadonlySet<string>;
}

const CALL_TIMEOUT_MS = 300_000;
/** How long a driver that does not answer is waited for: it may be restarting. */
const RESTART_TIMEOUT_MS = 60_000;
const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 2000;
/** Statuses after which a caller repeats the call: the driver is busy with the object, or starting. */
const REPEATED: readonly number[] = [StatusCode.ABORTED, StatusCode.UNAVAILABLE];

export class CsiDriver {
  readonly #client: Client;
  #info: Promise<DriverInfo> | null = null;

  constructor(
    readonly socketPath: string,
    /** Ends all calls and their repetitions. */
    private readonly signal: AbortSignal,
  ) {
    this.#client = new Client(`unix://${socketPath}`, credentials.createInsecure(), {
      'grpc.default_authority': 'localhost',
      'grpc.use_local_subchannel_pool': 1,
      'grpc.max_receive_message_length': -1,
      'grpc.initial_reconnect_backoff_ms': 100,
    });
  }

  close(): void {
    this.#client.close();
  }

  /** What the driver says of itself; asked once. */
  info(): Promise<DriverInfo> {
    this.#info ??= this.#ask();
    return this.#info;
  }

  /** A driver over another connection, whose calls this one's signal does not end: for what has to be undone. */
  withSignal(signal: AbortSignal): CsiDriver {
    return new CsiDriver(this.socketPath, signal);
  }

  /**
   * The response. Rejects with the driver's status, and a message that names the call.
   *
   * @param waitMs how long a driver that is busy or away is called again
   */
  async call(rpc: string, request: Message, waitMs = RESTART_TIMEOUT_MS): Promise<Message> {
    const deadline = Date.now() + waitMs;
    for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(pause * 2, LONGEST_PAUSE_MS)) {
      this.signal.throwIfAborted();
      try {
        return await this.#attempt(rpc, request);
      } catch (thrown) {
        this.signal.throwIfAborted();
        const { code, details } = thrown as ServiceError;
        if (!REPEATED.includes(code) || Date.now() + pause > deadline) {
          throw new CsiError(code as StatusCode, `${rpc}: ${details}`, { cause: thrown });
        }
      }
      await delay(pause, undefined, { signal: this.signal }).catch(() => undefined);
    }
  }

  #attempt(rpc: string, request: Message): Promise<Message> {
    const definition = definitionOf(rpc);
    return new Promise((resolve, reject) => {
      const call = this.#client.makeUnaryRequest<Message, Message>(
        definition.path,
        definition.requestSerialize,
        definition.responseDeserialize as (bytes: Buffer) => Message,
        request,
        new Metadata(),
        { deadline: Date.now() + CALL_TIMEOUT_MS },
        (error, response) => {
          this.signal.removeEventListener('abort', cancel);
          if (error === null) resolve(response as Message);
          else reject(error);
        },
      );
      const cancel = (): void => call.cancel();
      this.signal.addEventListener('abort', cancel);
    });
  }

  async #ask(): Promise<DriverInfo> {
    const { name, vendor_version: version } = await this.call('GetPluginInfo', {});
    const { capabilities } = await this.call('GetPluginCapabilities', {});
    const plugin = typesOf(capabilities, 'service');
    const controller = plugin.has('CONTROLLER_SERVICE')
      ? typesOf((await this.call('ControllerGetCapabilities', {}))['capabilities'], 'rpc')
      : new Set<string>();
    const node = await this.#askNode();
    return { name, version, plugin, controller, ...node };
  }

  async #askNode(): Promise<Pick<DriverInfo, 'node' | 'nodeId' | 'topology'>> {
    try {
      const { capabilities } = await this.call('NodeGetCapabilities', {});
      const info = await this.call('NodeGetInfo', {});
      const topology = (info['accessible_topology'] ?? null) as Message | null;
      return { node: typesOf(capabilities, 'rpc'), nodeId: String(info['node_id']), topology };
    } catch (thrown) {
      if (CsiError.from(thrown).code !== StatusCode.UNIMPLEMENTED) throw thrown;
      return { node: new Set(), nodeId: '', topology: null };
    }
  }
}

function typesOf(capabilities: readonly Message[], kind: string): Set<string> {
  return new Set(
    capabilities.flatMap((capability) => {
      const type = (capability[kind] as Message | null | undefined)?.['type'] as unknown;
      return typeof type === 'string' ? [type] : [];
    }),
  );
}

function definitionOf(rpc: string) {
  for (const methods of Object.values(clientServices())) {
    const definition = methods[rpc];
    if (definition !== undefined) return definition;
  }
  throw new Error(`CSI has no RPC ${rpc}`);
}
