/**
 * Makes unary calls of any CSI driver over one socket. Each call has a deadline, and is repeated while the driver is
 * busy or restarts, as a conforming caller does. Knows what a driver can do, but not what the calls are for.
 */
import { setMaxListeners } from 'node:events';
import { CsiError, StatusCode } from '../../base/errors.js';
import { CsiConnection, isServiceError, type Message, type Reach } from './connection.js';
import { whileBusy } from './retry.js';

export type { Message };

export interface DriverInfo {
  readonly name: string;
  readonly version: string;
  /** Empty if the socket serves no Node service. */
  readonly nodeId: string;
  /** Where volumes must be accessible, as CreateVolume is told; null if the driver has no constraint or reports no topology. */
  readonly segments: Readonly<Record<string, string>> | null;
  readonly plugin: ReadonlySet<string>;
  readonly controller: ReadonlySet<string>;
  readonly node: ReadonlySet<string>;
}

/** How long the caller waits for a driver that does not answer, because it may be restarting. */
const RESTART_TIMEOUT_MS = 60_000;
const PROBE_TIMEOUT_MS = 10_000;

export class CsiDriver {
  readonly connection: CsiConnection;
  #info: Promise<DriverInfo> | null = null;

  constructor(
    readonly socketPath: string,
    /** Ends all calls and their repetitions. */
    private readonly signal: AbortSignal,
    private readonly reach: Reach = {},
  ) {
    this.connection = this.connect();
    // Each call adds a listener.
    setMaxListeners(0, signal);
  }

  close(): void {
    this.connection.close();
  }

  /** Another connection to the driver, which the caller closes. */
  connect(): CsiConnection {
    return new CsiConnection(this.socketPath, this.reach);
  }

  /** Returns what the driver says about itself. The driver is asked only once. */
  info(): Promise<DriverInfo> {
    this.#info ??= this.#ask();
    return this.#info;
  }

  /** A driver over another connection, whose calls end with `signal` only. Used to undo work after this driver's signal. */
  withSignal(signal: AbortSignal): CsiDriver {
    return new CsiDriver(this.socketPath, signal, this.reach);
  }

  /**
   * Resolves to the response, or rejects with the driver's status and a message that names the call.
   *
   * @param waitMs how long the call is repeated while the driver is busy or away
   */
  async call(rpc: string, request: Message, waitMs = RESTART_TIMEOUT_MS): Promise<Message> {
    const { signal } = this;
    const attempt = async (): Promise<{ response: Message } | { thrown: unknown }> => {
      signal.throwIfAborted();
      try {
        return { response: await this.connection.unary(rpc, request, { signal }) };
      } catch (thrown) {
        signal.throwIfAborted();
        return { thrown };
      }
    };
    const codeOf = (outcome: Awaited<ReturnType<typeof attempt>>): number =>
      'thrown' in outcome && isServiceError(outcome.thrown) ? outcome.thrown.code : StatusCode.OK;
    const outcome = await whileBusy(attempt, codeOf, Date.now() + waitMs, signal);
    if ('response' in outcome) return outcome.response;
    const { thrown } = outcome;
    if (!isServiceError(thrown)) throw thrown;
    throw new CsiError(thrown.code as StatusCode, `${rpc}: ${thrown.details}`, { cause: thrown });
  }

  async #ask(): Promise<DriverInfo> {
    const { name, vendor_version: version } = await this.call('GetPluginInfo', {});
    const { capabilities } = await this.call('GetPluginCapabilities', {});
    const plugin = typesOf(capabilities, 'service');
    const controller = plugin.has('CONTROLLER_SERVICE')
      ? typesOf((await this.call('ControllerGetCapabilities', {}))['capabilities'], 'rpc')
      : new Set<string>();
    const { topology, ...node } = await this.#askNode();
    const isConstrained = plugin.has('VOLUME_ACCESSIBILITY_CONSTRAINTS');
    const segments = isConstrained ? (topology?.['segments'] ?? null) : null;
    return { name, version, plugin, controller, segments, ...node };
  }

  async #askNode(): Promise<Pick<DriverInfo, 'node' | 'nodeId'> & { topology: Message | null }> {
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

/**
 * Returns the types of the capabilities of one kind: service, rpc or volume_expansion. A type that the proto does not
 * know is returned as its number.
 */
export function typesOf(capabilities: readonly Message[], kind: string): Set<string> {
  const types = capabilities.map((capability) => capability[kind]?.type as unknown);
  return new Set(types.flatMap((type) => (type === undefined ? [] : [String(type)])));
}

/** Returns null if the plugin is ready, and otherwise what Probe answered. */
export async function probeReady(socketPath: string): Promise<string | null> {
  const connection = new CsiConnection(socketPath);
  try {
    const { ready } = await connection.unary('Probe', {}, { deadlineMs: PROBE_TIMEOUT_MS });
    return ready?.value === false ? 'it is starting' : null;
  } catch (thrown) {
    return isServiceError(thrown) ? thrown.details : String(thrown);
  } finally {
    connection.close();
  }
}
