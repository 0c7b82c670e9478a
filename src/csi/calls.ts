/**
 * The life of one call, whatever its kind: its id, what ends it early, and its one line in the log.
 *
 * CallRegistry knows all calls in flight, so that a stopping server can wait for them or cut them
 * short. Knows neither what an RPC does nor how an answer is sent.
 */
import { randomBytes } from 'node:crypto';
import type { Metadata } from '@grpc/grpc-js';
import type { Logger } from 'pino';
import { CsiError, StatusCode } from '../base/errors.js';
import { originOf } from './incoming-calls.js';
import { redact } from './redact.js';
import type { DecodedMessage, DecodedRequest } from './request-decoder.js';
import type { ServiceName, StreamContext } from './service.js';

export interface Rpc {
  readonly service: ServiceName;
  readonly name: string;
  /** Message type of the request, relative to csi.v1. */
  readonly requestType: string;
}

/** What this file needs of a gRPC server call. */
export interface GrpcCall {
  readonly request: DecodedRequest;
  readonly metadata: Metadata;
  getDeadline(): Date | number;
  once(event: 'cancelled', listener: () => void): unknown;
}

type Notes = Readonly<Record<string, string | number | bigint | boolean>>;

const CODE_NAMES: ReadonlyMap<number, string> = new Map(
  Object.entries(StatusCode).map(([name, code]) => [code, name]),
);

/** What requests may take in all, encoded, while their calls run. A single one may always. */
const MAX_REQUEST_BYTES = 32 << 20;

/** Request fields that say what a call was about. */
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

/** The longest delay a timer takes; a deadline that far away never comes. */
const MAX_TIMER_MS = 2 ** 31 - 1;
/** A client gives up at its own deadline, which lies before ours by the time the request travelled. */
const DEADLINE_SLACK_MS = 100;

export class CallRegistry {
  readonly #calls = new Set<Call>();
  readonly #log: Logger;
  readonly #maxCalls: number;
  #requestBytes = 0;
  #idle: { promise: Promise<void>; resolve: () => void } | null = null;

  /** @param maxCalls how many calls are admitted at once, streams included */
  constructor(log: Logger, maxCalls: number) {
    this.#log = log;
    this.#maxCalls = maxCalls;
  }

  get size(): number {
    return this.#calls.size;
  }

  open(rpc: Rpc, grpcCall: GrpcCall): Call {
    const call = new Call(rpc, grpcCall, this.#log, () => this.#close(call));
    this.#calls.add(call);
    this.#requestBytes += call.requestBytes;
    return call;
  }

  /**
   * Throws UNAVAILABLE if there is too much to do already. Not of Identity: who is asked for its health and
   * does not answer is restarted, which helps nobody.
   */
  admit(rpc: Rpc): void {
    if (rpc.service === 'Identity') return;
    if (this.#calls.size > this.#maxCalls) {
      throw CsiError.unavailable(
        `${this.#maxCalls} calls are in flight, and that is the limit; try again later`,
      );
    }
    if (this.#calls.size > 1 && this.#requestBytes > MAX_REQUEST_BYTES) {
      throw CsiError.unavailable('the requests in flight are too large together; try again later');
    }
  }

  /** Aborts the signal of every call in flight; their handlers end when they notice. */
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

export class Call implements StreamContext {
  readonly log: Logger;
  readonly peer: object;
  readonly deadline: number;
  readonly #onFinish: () => void;
  readonly #request: DecodedRequest;
  readonly #controller = new AbortController();
  readonly #started = performance.now();
  readonly #deadlineTimer: NodeJS.Timeout | undefined;
  #notes: Record<string, string | number | bigint | boolean> = {};

  constructor(rpc: Rpc, grpcCall: GrpcCall, log: Logger, onFinish: () => void) {
    this.#onFinish = onFinish;
    this.#request = grpcCall.request;
    this.peer = originOf(grpcCall.metadata)?.connection ?? this;
    this.log = log.child({
      op: randomBytes(6).toString('hex'),
      method: `${rpc.service}.${rpc.name}`,
      ...idsOf(this.#request.message),
    });
    this.deadline = Number(grpcCall.getDeadline());
    this.#deadlineTimer = this.#watchDeadline(this.deadline);
    grpcCall.once('cancelled', () => {
      this.abort(
        Date.now() + DEADLINE_SLACK_MS >= this.deadline ? deadlineExceeded() : clientCancelled(),
      );
    });
    if (this.log.isLevelEnabled('debug')) {
      this.log.debug({ request: redact(rpc.requestType, this.#request.message) }, 'call started');
    }
  }

  /** Throws INVALID_ARGUMENT if the bytes of the request are no message of its type. */
  get request(): DecodedMessage {
    if (this.#request.refusal !== null) throw this.#request.refusal;
    return this.#request.message;
  }

  /** Of the request as it came over the wire. */
  get requestBytes(): number {
    return this.#request.bytes;
  }

  /** Aborted when the client cancels, its deadline passes, or the plugin is forced to stop. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  note(fields: Notes): void {
    this.#notes = { ...this.#notes, ...fields };
  }

  /** The first reason stays. */
  abort(reason: CsiError): void {
    this.#controller.abort(reason);
  }

  /** What a handler threw, told as what ended the call if the handler only gave way to that. */
  errorOf(thrown: unknown): CsiError {
    const error = CsiError.from(thrown);
    if (!this.signal.aborted || error.code !== StatusCode.CANCELLED) return error;
    return CsiError.from(this.signal.reason);
  }

  /** To be called once, when the handler has ended. Writes the line. */
  finish(error: CsiError | null): void {
    clearTimeout(this.#deadlineTimer);
    this.#onFinish();
    const line = {
      ...this.#notes,
      // An answer that nobody waited for any more: what the caller saw instead.
      ...(error === null && this.signal.aborted ? { cutOff: codeName(this.signal.reason) } : {}),
      code: error === null ? 'OK' : codeName(error),
      ms: Math.round((performance.now() - this.#started) * 10) / 10,
    };
    if (error === null) this.log.info(line, 'call ended');
    else this.#logFailure(line, error);
  }

  #logFailure(line: object, error: CsiError): void {
    const details = Object.keys(error.details).length > 0 ? { details: error.details } : {};
    const fields = { ...line, error: error.message, ...details };
    if (error.code === StatusCode.INTERNAL || error.code === StatusCode.UNKNOWN) {
      this.log.error({ ...fields, err: error.cause ?? error }, 'call failed');
      return;
    }
    const cause = error.cause instanceof Error ? { cause: error.cause.message } : {};
    this.log.warn({ ...fields, ...cause }, 'call failed');
  }

  #watchDeadline(deadline: number): NodeJS.Timeout | undefined {
    const remainingMs = deadline - Date.now();
    // Also false for no deadline at all, which is Infinity.
    if (!(remainingMs < MAX_TIMER_MS)) return undefined;
    // gRPC answers the client itself; this ends the handler, also when the answer cannot get out.
    const timer = setTimeout(() => this.abort(deadlineExceeded()), Math.max(remainingMs, 0));
    return timer.unref();
  }
}

function deadlineExceeded(): CsiError {
  return new CsiError(StatusCode.DEADLINE_EXCEEDED, "the caller's deadline has passed");
}

function clientCancelled(): CsiError {
  return CsiError.cancelled('the caller cancelled the call or went away');
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
