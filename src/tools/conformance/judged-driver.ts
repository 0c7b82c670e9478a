/**
 * The suite's client: makes unary calls with a deadline, opens metadata streams, and records every refused call. Knows
 * how to call, and nothing about which answers are right.
 */
import type { ServiceError } from '@grpc/grpc-js';
import { clientServices, csiMessage } from '../../base/csi/proto.js';
import { StatusCode } from '../../base/errors.js';
import { CsiConnection, isServiceError, methodOf } from '../client/connection.js';
import { whileBusy } from '../client/retry.js';
import { MetadataStream, type MetadataStreamOptions } from './bare-stream.js';
import { ConformanceFailure } from './failure.js';
import type { ListRequest } from './list-request.js';
import type { Message } from './objects.js';
import type { SuiteOptions } from './options.js';
import { Presence } from './presence.js';
import { describeRefusal, type Refusal, statusName } from './refusal.js';

export type Outcome =
  | { readonly response: Message; readonly refusal: null }
  | { readonly response: null; readonly refusal: Refusal };

/** The services at the node's socket. The other services are at the controller's socket. */
const NODE_SERVICES = ['Identity', 'Node'] as const;

export class Driver {
  readonly #node: CsiConnection;
  readonly #controller: CsiConnection;
  /** Every refusal that came from the driver during a run. One check inspects the form of the refusals. */
  readonly refusals: Refusal[];
  readonly presence: Presence;

  constructor(
    private readonly options: SuiteOptions,
    private readonly signal: AbortSignal,
    shared: Driver | null = null,
  ) {
    const { socketPath, controllerSocketPath } = options;
    this.#node = shared === null ? new CsiConnection(socketPath) : shared.#node;
    const isOne = socketPath === controllerSocketPath;
    this.#controller =
      shared === null ? (isOne ? this.#node : new CsiConnection(controllerSocketPath)) : shared.#controller;
    this.refusals = shared === null ? [] : shared.refusals;
    this.presence =
      shared === null ? new Presence([socketPath, controllerSocketPath], options.timeoutMs) : shared.presence;
  }

  /** A driver over the same connections whose calls end with another signal. */
  under(signal: AbortSignal): Driver {
    return new Driver(this.options, signal, this);
  }

  close(): void {
    this.#node.close();
    this.#controller.close();
  }

  /** Makes one call, whatever its status. */
  async attempt(rpc: string, request: Message, timeoutMs?: number): Promise<Outcome> {
    const { cause } = this.presence;
    if (cause !== null) return { response: null, refusal: this.#record(unavailable(rpc, cause)) };
    const isOfNode = NODE_SERVICES.some((service) => rpc in clientServices()[service]);
    const connection = isOfNode ? this.#node : this.#controller;
    try {
      const response = await connection.unary(rpc, this.#withSecrets(rpc, request), {
        deadlineMs: timeoutMs ?? this.options.timeoutMs,
        signal: this.signal,
      });
      return { response, refusal: null };
    } catch (thrown) {
      if (!isServiceError(thrown)) throw thrown;
      return { response: null, refusal: this.#record(refusalOf(rpc, thrown)) };
    }
  }

  /**
   * Calls as a conforming caller does: retries while the driver answers that it is busy. All attempts together end
   * within the timeout of one call. Only the wait for a driver that has died takes extra time.
   */
  async outcome(rpc: string, request: Message): Promise<Outcome> {
    const deadline = Date.now() + this.options.timeoutMs;
    const attempt = async (): Promise<Outcome> => {
      const outcome = await this.attempt(rpc, request, deadline - Date.now());
      const isUnavailable = outcome.refusal?.code === StatusCode.UNAVAILABLE;
      // This attempt fails with the cause.
      if (isUnavailable && !(await this.presence.isThere())) return this.attempt(rpc, request);
      return outcome;
    };
    const codeOf = ({ refusal }: Outcome): number =>
      this.presence.cause === null ? (refusal?.code ?? StatusCode.OK) : StatusCode.OK;
    return whileBusy(attempt, codeOf, deadline, this.signal);
  }

  /** Returns the response of a call that must succeed. */
  async call(rpc: string, request: Message): Promise<Message> {
    const { response, refusal } = await this.outcome(rpc, request);
    if (refusal !== null) throw new ConformanceFailure(rpc, 'OK', describeRefusal(refusal));
    return response;
  }

  openList(
    list: ListRequest,
    fields: { startingOffset?: bigint; maxResults?: number } = {},
    options: MetadataStreamOptions = {},
  ): MetadataStream {
    const request = {
      ...list.ids,
      starting_offset: String(fields.startingOffset ?? 0n),
      max_results: fields.maxResults ?? 0,
    };
    const { path, requestSerialize } = methodOf(list.rpc);
    return new MetadataStream({
      socketPath: this.options.controllerSocketPath,
      rpc: list.rpc,
      path,
      request: requestSerialize(this.#withSecrets(list.rpc, request)),
      signal: this.signal,
      onRefusal: (refusal) => this.#record(refusal),
      ...options,
    });
  }

  #record(refusal: Refusal): Refusal {
    // These two statuses are generated by the client.
    const isOurs = refusal.code === StatusCode.CANCELLED || refusal.code === StatusCode.DEADLINE_EXCEEDED;
    if (!isOurs) this.refusals.push(refusal);
    if (refusal.code === StatusCode.UNAVAILABLE) void this.presence.isThere();
    return refusal;
  }

  #withSecrets(rpc: string, request: Message): Message {
    const secrets = this.options.secrets[rpc] ?? this.options.secrets['*'];
    const takesSecrets = csiMessage(`${rpc}Request`).fields['secrets'] !== undefined;
    return secrets === undefined || !takesSecrets ? request : { ...request, secrets };
  }
}

/** Fails unless the call was refused with one of the codes. */
export function expectRefusal(
  subject: string,
  outcome: Outcome,
  codes: readonly number[],
): asserts outcome is Outcome & { refusal: Refusal } {
  const expected = codes.map(statusName).join(' or ');
  if (outcome.refusal === null) throw new ConformanceFailure(subject, expected, 'OK');
  if (!codes.includes(outcome.refusal.code)) {
    throw new ConformanceFailure(subject, expected, describeRefusal(outcome.refusal));
  }
}

const unavailable = (rpc: string, message: string): Refusal => ({
  rpc,
  code: StatusCode.UNAVAILABLE,
  message,
  hasDetails: false,
});

function refusalOf(rpc: string, error: ServiceError): Refusal {
  const hasDetails = error.metadata?.get('grpc-status-details-bin').length > 0;
  return { rpc, code: error.code, message: error.details, hasDetails };
}
