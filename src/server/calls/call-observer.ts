/**
 * The events that calls report to an observer, which counts them. Knows nothing of metrics.
 *
 * The methods run on the event loop for every call, so they must return at once and never throw. Calls do not report the
 * single messages of a stream: an observer reads the sums when it needs them.
 */

/** Service and method, as in the proto. */
export interface ObservedRpc {
  /** The service, with its package unless the package is csi.v1: `Node`, `csi.v0.Node`. */
  readonly service: string;
  readonly name: string;
}

/** What one stream has sent so far. The numbers only grow. */
export interface StreamSums {
  readonly messages: number;
  /** Bytes of the messages, without their length prefixes. */
  readonly wireBytes: number;
  /** How many pauses there were until the client had taken messages. waitMs is their total duration. */
  readonly waits: number;
  readonly waitMs: number;
}

export interface CallObserver {
  callStarted(rpc: ObservedRpc): void;
  /** @param code name of the status code, such as NOT_FOUND */
  callEnded(rpc: ObservedRpc, code: string, seconds: number): void;
  /** @param sums may be read until streamEnded gets the same object */
  streamStarted(rpc: ObservedRpc, sums: StreamSums): void;
  /** @param seconds from the start of the call until its first message was passed to the transport */
  firstMessageSent(rpc: ObservedRpc, seconds: number): void;
  /** @param isCancelled the client went away, or its deadline passed, before the list was complete */
  streamEnded(rpc: ObservedRpc, sums: StreamSums, isCancelled: boolean): void;
}

/** Counts nothing. */
export const UNOBSERVED: CallObserver = {
  callStarted: () => undefined,
  callEnded: () => undefined,
  streamStarted: () => undefined,
  firstMessageSent: () => undefined,
  streamEnded: () => undefined,
};
