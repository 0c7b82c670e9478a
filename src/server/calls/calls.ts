/**
 * The life of one call, unary or streaming: its id, the reasons that end it early, and its one line in the log.
 *
 * CallRegistry knows all calls in flight, so that a stopping server can wait for them or abort them.
 * Knows neither what an RPC does nor how a response is sent.
 */
import { randomUUID } from 'node:crypto';
import type { Metadata } from '@grpc/grpc-js';
import type { Logger } from 'pino';
import type protobuf from 'protobufjs';
import type { CallContext } from '../../base/csi/service.js';
import { CsiError, StatusCode } from '../../base/errors.js';
import { type OpenSpan, openSpan } from '../../base/tracing.js';
import { type CallObserver, type ObservedRpc, UNOBSERVED } from './call-observer.js';
import { originOf } from './incoming-calls.js';
import { levelOfCall } from './log-levels.js';
import { redact } from './redact.js';
import type { DecodedMessage, DecodedRequest } from './request-decoder.js';

export interface Rpc extends ObservedRpc {
  /** Package and service: `csi.v1.Node`. */
  readonly fullService: string;
  readonly requestType: protobuf.Type;
}

/** What this file needs of a gRPC server call. */
export interface GrpcCall {
  readonly request: DecodedRequest;
  readonly metadata: Metadata;
  getDeadline(): Date | number;
  once(event: 'cancelled', listener: () => void): unknown;
}

type Notes = Readonly<Record<string, string | number | bigint | boolean>>;

const CODE_NAMES: ReadonlyMap<number, string> = new Map(Object.entries(StatusCode).map(([name, code]) => [code, name]));

/** Limit of the encoded sizes of all requests in flight together. A single request is always admitted. */
const MAX_REQUEST_BYTES = 32 << 20;

/** Request fields that identify the objects of a call in its log line. */
const LOGGED_FIELDS = [
  'volume_id',
  'source_volume_id',
  'snapshot_id',
  'base_snapshot_id',
  'target_snapshot_id',
  'group_snapshot_id',
  'name',
  'staging_target_path',
  'target_path',
  'volume_path',
] as const;
const MAX_LOGGED_LENGTH = 256;

/** The longest delay that setTimeout accepts, 24 days. A later deadline is treated as none. */
const MAX_TIMER_MS = 2 ** 31 - 1;
/** A client cancels at its own deadline, which is earlier than ours by the travel time of the request. */
const DEADLINE_SLACK_MS = 100;

export class CallRegistry {
  readonly #calls = new Set<Call>();
  #requestBytes = 0;
  #idle: { promise: Promise<void>; resolve: () => void } | null = null;

  /** @param maxCalls how many calls are admitted at once, streams included */
  constructor(
    private readonly log: Logger,
    private readonly maxCalls: number,
    private readonly observer: CallObserver = UNOBSERVED,
  ) {}

  get size(): number {
    return this.#calls.size;
  }

  open(rpc: Rpc, grpcCall: GrpcCall): Call {
    const call = new Call(rpc, grpcCall, this.log, this.observer, () => this.#close(call));
    this.#calls.add(call);
    this.#requestBytes += call.requestBytes;
    return call;
  }

  /**
   * Throws UNAVAILABLE if too many calls, or requests of too many bytes, are in flight already. Identity is exempt: a plugin
   * that fails its Probe under load would be restarted, and the load would remain.
   */
  admit(rpc: Rpc): void {
    if (rpc.fullService.endsWith('.Identity')) return;
    if (this.#calls.size > this.maxCalls) {
      throw CsiError.unavailable(`${this.maxCalls} calls are in flight, which is the limit; try again later`);
    }
    if (this.#calls.size > 1 && this.#requestBytes > MAX_REQUEST_BYTES) {
      throw CsiError.unavailable('the requests in flight are too large in total; try again later');
    }
  }

  /** Aborts the signal of every call in flight. A handler ends when it notices the abort. */
  abortAll(reason: CsiError): void {
    for (const call of this.#calls) call.abort(reason);
  }

  /** Resolves when no call is in flight. */
  idle(): Promise<void> {
    if (this.#calls.size === 0) return Promise.resolve();
    if (this.#idle === null) {
      let resolve = (): void => undefined;
      const promise = new Promise<void>((done) => {
        resolve = done;
      });
      this.#idle = { promise, resolve };
    }
    return this.#idle.promise;
  }

  #close(call: Call): void {
    this.#calls.delete(call);
    this.#requestBytes -= call.requestBytes;
    if (this.#calls.size > 0) return;
    this.#idle?.resolve();
    this.#idle = null;
  }
}

export class Call implements CallContext {
  readonly log: Logger;
  readonly peer: object;
  readonly deadline: number;
  readonly rpc: Rpc;
  readonly observer: CallObserver;
  readonly #request: DecodedRequest;
  readonly #controller = new AbortController();
  #hasEnded = false;
  readonly #started = performance.now();
  readonly #deadlineTimer: NodeJS.Timeout | undefined;
  readonly #span: OpenSpan;
  #notes: Record<string, string | number | bigint | boolean> = {};

  constructor(
    rpc: Rpc,
    grpcCall: GrpcCall,
    log: Logger,
    observer: CallObserver,
    private readonly onFinish: () => void,
  ) {
    this.rpc = rpc;
    this.observer = observer;
    observer.callStarted(rpc);
    this.#span = spanOf(rpc, grpcCall.metadata);
    this.#request = grpcCall.request;
    this.peer = originOf(grpcCall.metadata)?.caller ?? this;
    this.log = log.child({
      // The last group is 48 random bits. Node.js keeps a stock of random UUIDs, but no stock of plain random bytes.
      op: randomUUID().slice(-12),
      method: `${rpc.service}.${rpc.name}`,
      ...idsOf(this.#request.message),
    });
    this.deadline = Number(grpcCall.getDeadline());
    this.#deadlineTimer = this.#watchDeadline(this.deadline);
    grpcCall.once('cancelled', () => {
      // gRPC also emits this event for a call that has ended.
      if (this.#hasEnded) return;
      const isLate = Date.now() + DEADLINE_SLACK_MS >= this.deadline;
      const gone = CsiError.cancelled('the caller cancelled the call or went away');
      this.abort(isLate ? deadlineExceeded() : gone);
    });
    if (this.log.isLevelEnabled('debug')) {
      this.log.debug({ request: redact(rpc.requestType, this.#request.message) }, 'call started');
    }
  }

  /** Throws INVALID_ARGUMENT if the bytes of the request are not a valid message of its type. */
  get request(): DecodedMessage {
    if (this.#request.refusal !== null) throw this.#request.refusal;
    return this.#request.message;
  }

  get encodedRequest(): Buffer {
    return this.#request.encoded;
  }

  get requestBytes(): number {
    return this.#request.encoded.length;
  }

  /** Aborted when the client cancels, its deadline passes, or the plugin is forced to stop. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** How long the call has been running. */
  get seconds(): number {
    return (performance.now() - this.#started) / 1000;
  }

  note(fields: Notes): void {
    this.#notes = { ...this.#notes, ...fields };
  }

  /** Runs the handler in the call's span. */
  run<T>(handler: () => T): T {
    return this.#span.run(handler);
  }

  /** Only the first reason counts. */
  abort(reason: CsiError): void {
    this.#controller.abort(reason);
  }

  /** The error that the handler threw; or the reason of the abort, if the handler only reacted to the abort. */
  errorOf(thrown: unknown): CsiError {
    const error = CsiError.from(thrown);
    if (!this.signal.aborted || error.code !== StatusCode.CANCELLED) return error;
    return CsiError.from(this.signal.reason);
  }

  /** Writes the log line. The caller calls this once, when the handler has ended. */
  finish(error: CsiError | null): void {
    this.#hasEnded = true;
    clearTimeout(this.#deadlineTimer);
    this.onFinish();
    const code = error === null ? 'OK' : codeName(error);
    this.observer.callEnded(this.rpc, code, this.seconds);
    this.#span.end(error?.message ?? null, { 'rpc.grpc.status_code': error?.code ?? 0 });
    const line = {
      ...this.#notes,
      // The handler succeeded after the call was aborted. `cutOff` is the code that the caller saw.
      ...(error === null && this.signal.aborted ? { cutOff: codeName(this.signal.reason) } : {}),
      code,
      ms: Math.round(this.seconds * 10_000) / 10,
    };
    const level = levelOfCall(this.rpc, error);
    if (error === null) this.log[level](line, 'call ended');
    else this.log[level]({ ...line, ...failureFields(error, level === 'error') }, 'call failed');
  }

  #watchDeadline(deadline: number): NodeJS.Timeout | undefined {
    const remainingMs = deadline - Date.now();
    // Without a deadline, remainingMs is Infinity.
    if (!(remainingMs < MAX_TIMER_MS)) return undefined;
    // gRPC ends the call for the client. This timer ends the handler, even if the client does not read.
    const timer = setTimeout(() => this.abort(deadlineExceeded()), Math.max(remainingMs, 0));
    return timer.unref();
  }
}

/** Opens a span in the trace of the caller, if the caller has one. Names follow OpenTelemetry's conventions for RPCs. */
function spanOf({ fullService: service, name }: Rpc, metadata: Metadata): OpenSpan {
  return openSpan({
    name: `${service}/${name}`,
    attributes: { 'rpc.system': 'grpc', 'rpc.service': service, 'rpc.method': name },
    servedFor: {
      names: () => Object.keys(metadata.getMap()),
      value: (key) => {
        const [value] = metadata.get(key);
        // Binary values are left out.
        return typeof value === 'string' ? value : undefined;
      },
    },
  });
}

/** @param isDefect adds the stack to the line */
function failureFields(error: CsiError, isDefect: boolean): object {
  const details = Object.keys(error.details).length > 0 ? { details: error.details } : {};
  const fields = { error: error.message, ...details };
  if (isDefect) return { ...fields, err: error.cause ?? error };
  return error.cause instanceof Error ? { ...fields, cause: error.cause.message } : fields;
}

function deadlineExceeded(): CsiError {
  return new CsiError(StatusCode.DEADLINE_EXCEEDED, "the caller's deadline has passed");
}

function codeName(error: CsiError): string {
  return CODE_NAMES.get(error.code) ?? String(error.code);
}

function idsOf(request: DecodedMessage): Record<string, string> {
  const ids: Record<string, string> = {};
  for (const field of LOGGED_FIELDS) {
    const value = request[field];
    if (typeof value === 'string' && value !== '') ids[field] = value.slice(0, MAX_LOGGED_LENGTH);
  }
  return ids;
}
