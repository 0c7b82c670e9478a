/**
 * The client: unary calls with a deadline, metadata streams, and a record of every refused call. Knows how
 * to call, and nothing about which answers are right.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { Client, credentials, Metadata, type ServiceError } from '@grpc/grpc-js';
import { clientServices, csiMessage } from '../../base/csi/proto.js';
import type { ServiceName } from '../../base/csi/service.js';
import { StatusCode } from '../../base/errors.js';
import { ConformanceFailure } from './failure.js';
import type { ListRequest } from './list-request.js';
import { MetadataStream, type MetadataStreamOptions } from './metadata-stream.js';
import type { Message } from './objects.js';
import type { SuiteOptions } from './options.js';
import { Presence } from './presence.js';
import { describeRefusal, type Refusal, statusName } from './refusal.js';

export type Outcome =
  | { readonly response: Message; readonly refusal: null }
  | { readonly response: null; readonly refusal: Refusal };

const CHANNEL_OPTIONS = {
  'grpc.default_authority': 'localhost',
  'grpc.max_receive_message_length': -1,
  'grpc.initial_reconnect_backoff_ms': 100,
} as const;
/** Statuses after which a caller retries: the driver is busy with the object, or starting. */
const REPEATED: readonly number[] = [StatusCode.ABORTED, StatusCode.UNAVAILABLE];
const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 1000;
const NODE_SERVICES: readonly ServiceName[] = ['Identity', 'Node'];

export class Driver {
  readonly #node: Client;
  readonly #controller: Client;
  /** Every refusal of a run; one check inspects their form. */
  readonly refusals: Refusal[];
  readonly presence: Presence;

  constructor(
    private readonly options: SuiteOptions,
    private readonly signal: AbortSignal,
    shared: Driver | null = null,
  ) {
    const { socketPath, controllerSocketPath } = options;
    this.#node = shared === null ? connect(socketPath) : shared.#node;
    const isOne = socketPath === controllerSocketPath;
    this.#controller =
      shared === null ? (isOne ? this.#node : connect(controllerSocketPath)) : shared.#controller;
    this.refusals = shared === null ? [] : shared.refusals;
    this.presence =
      shared === null
        ? new Presence([socketPath, controllerSocketPath], options.timeoutMs)
        : shared.presence;
  }

  /** A driver over the same connections whose calls end with another signal. */
  under(signal: AbortSignal): Driver {
    return new Driver(this.options, signal, this);
  }

  close(): void {
    this.#node.close();
    this.#controller.close();
  }

  /** One call, whatever its status. */
  async attempt(rpc: string, request: Message, timeoutMs?: number): Promise<Outcome> {
    const { cause } = this.presence;
    if (cause !== null) return { response: null, refusal: this.#record(unavailable(rpc, cause)) };
    const { service, definition } = methodOf(rpc);
    const client = NODE_SERVICES.includes(service) ? this.#node : this.#controller;
    const deadline = Date.now() + (timeoutMs ?? this.options.timeoutMs);
    return new Promise((resolve) => {
      const call = client.makeUnaryRequest<Message, Message>(
        definition.path,
        definition.requestSerialize,
        definition.responseDeserialize as (bytes: Buffer) => Message,
        this.#withSecrets(rpc, request),
        new Metadata(),
        { deadline },
        (error, response) => {
          this.signal.removeEventListener('abort', cancel);
          if (error === null) resolve({ response: response as Message, refusal: null });
          else resolve({ response: null, refusal: this.#record(refusalOf(rpc, error)) });
        },
      );
      const cancel = (): void => call.cancel();
      this.signal.addEventListener('abort', cancel);
      if (this.signal.aborted) cancel();
    });
  }

  /**
   * Calls as a conforming caller does: retries while the driver answers that it is busy. All attempts together end
   * within the timeout of one call; only the wait for a driver that has died adds to it.
   */
  async settle(rpc: string, request: Message): Promise<Outcome> {
    const deadline = Date.now() + this.options.timeoutMs;
    for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(pause * 2, LONGEST_PAUSE_MS)) {
      const outcome = await this.attempt(rpc, request, deadline - Date.now());
      const isBusy = outcome.refusal !== null && REPEATED.includes(outcome.refusal.code);
      const isUnavailable = outcome.refusal?.code === StatusCode.UNAVAILABLE;
      if (isUnavailable && !(await this.presence.isThere())) return this.attempt(rpc, request);
      // As much time as the pause is left for an attempt: one that has too little would hide what the driver answers.
      if (!isBusy || this.signal.aborted || Date.now() + 2 * pause > deadline) return outcome;
      await delay(pause, undefined, { signal: this.signal }).catch(() => undefined);
    }
  }

  /** The response of a call that must succeed. */
  async call(rpc: string, request: Message): Promise<Message> {
    const { response, refusal } = await this.settle(rpc, request);
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
    const { definition } = methodOf(list.rpc);
    return new MetadataStream({
      socketPath: this.options.controllerSocketPath,
      rpc: list.rpc,
      path: definition.path,
      request: definition.requestSerialize(this.#withSecrets(list.rpc, request)),
      signal: this.signal,
      onRefusal: (refusal) => this.#record(refusal),
      ...options,
    });
  }

  #record(refusal: Refusal): Refusal {
    // These two statuses are generated by the client.
    const isOurs =
      refusal.code === StatusCode.CANCELLED || refusal.code === StatusCode.DEADLINE_EXCEEDED;
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

function connect(socketPath: string): Client {
  return new Client(`unix://${socketPath}`, credentials.createInsecure(), CHANNEL_OPTIONS);
}

function methodOf(rpc: string) {
  for (const [service, methods] of Object.entries(clientServices())) {
    const definition = methods[rpc];
    if (definition !== undefined) return { service: service as ServiceName, definition };
  }
  throw new Error(`CSI has no RPC ${rpc}`);
}

function refusalOf(rpc: string, error: ServiceError): Refusal {
  const hasDetails = error.metadata?.get('grpc-status-details-bin').length > 0;
  return { rpc, code: error.code, message: error.details, hasDetails };
}
