/**
 * Counts the RPCs and streams of the plugin and of any other server whose calls go through server/calls/calls.ts. Knows
 * nothing of what the services do.
 */
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import type { CallObserver, ObservedRpc, StreamSums } from '../calls/call-observer.js';
import { RunningSums, readCounter } from './running-sums.js';

/** Buckets that range from a look-up in memory to a copy that takes minutes. */
const CALL_SECONDS = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300];
const FIRST_MESSAGE_SECONDS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1, 5, 30];

// Prometheus itself puts a label 'service' on targets of Kubernetes services.
const RPC_LABELS = ['grpc_service', 'method'] as const;
type RpcLabel = (typeof RPC_LABELS)[number];

interface MethodTotals {
  readonly labels: Record<RpcLabel, string>;
  streams: number;
  cancelled: number;
  sums: RunningSums<keyof StreamSums>;
}

export class CallMetrics implements CallObserver {
  readonly #calls: Counter<RpcLabel | 'code'>;
  readonly #inFlight: Gauge<RpcLabel>;
  readonly #seconds: Histogram<RpcLabel>;
  readonly #firstMessage: Histogram<RpcLabel>;
  readonly #totals = new Map<string, MethodTotals>();

  /** @param streamed the methods that stream, so that their counters begin at zero */
  constructor(registry: Registry, streamed: readonly ObservedRpc[]) {
    const registers = [registry];
    this.#calls = new Counter({
      name: 'blockdelta_rpcs_total',
      help: 'RPCs that have ended, by the name of their gRPC status code',
      labelNames: [...RPC_LABELS, 'code'],
      registers,
    });
    this.#inFlight = new Gauge({
      name: 'blockdelta_rpcs_in_flight',
      help: 'RPCs in progress, streams included',
      labelNames: RPC_LABELS,
      registers,
    });
    this.#seconds = new Histogram({
      name: 'blockdelta_rpc_duration_seconds',
      help: 'duration of RPCs; that of a stream depends on how fast its client reads',
      labelNames: RPC_LABELS,
      buckets: CALL_SECONDS,
      registers,
    });
    this.#firstMessage = new Histogram({
      name: 'blockdelta_stream_first_message_seconds',
      help: 'time from the start of a stream until its first message was passed to the transport',
      labelNames: RPC_LABELS,
      buckets: FIRST_MESSAGE_SECONDS,
      registers,
    });
    this.#defineStreams(registry);
    for (const rpc of streamed) this.#totalsOf(rpc);
  }

  callStarted(rpc: ObservedRpc): void {
    this.#inFlight.inc({ grpc_service: rpc.service, method: rpc.name });
  }

  callEnded(rpc: ObservedRpc, code: string, seconds: number): void {
    const labels = { grpc_service: rpc.service, method: rpc.name };
    this.#inFlight.dec(labels);
    this.#calls.inc({ ...labels, code });
    this.#seconds.observe(labels, seconds);
  }

  streamStarted(rpc: ObservedRpc, sums: StreamSums): void {
    const totals = this.#totalsOf(rpc);
    totals.streams += 1;
    totals.sums.begin(sums);
  }

  firstMessageSent(rpc: ObservedRpc, seconds: number): void {
    this.#firstMessage.observe({ grpc_service: rpc.service, method: rpc.name }, seconds);
  }

  streamEnded(rpc: ObservedRpc, sums: StreamSums, isCancelled: boolean): void {
    const totals = this.#totalsOf(rpc);
    if (totals.sums.end(sums) && isCancelled) totals.cancelled += 1;
  }

  /** A running stream reports nothing. On collection, these metrics read the sums of the streams. */
  #defineStreams(registry: Registry): void {
    const all = this.#totals;
    const counter = (name: string, help: string, read: (totals: MethodTotals) => number): void =>
      readCounter(registry, { name, help, labelNames: RPC_LABELS }, () =>
        [...all.values()].map((totals) => [totals.labels, read(totals)] as const),
      );
    new Gauge({
      name: 'blockdelta_streams_open',
      help: 'streams in progress',
      labelNames: RPC_LABELS,
      registers: [registry],
      collect() {
        for (const { labels, sums } of all.values()) this.set(labels, sums.running);
      },
    });
    counter('blockdelta_streams_total', 'streams that have started', ({ streams }) => streams);
    counter(
      'blockdelta_streams_cancelled_total',
      'streams whose client went away, or whose deadline passed, before the list was complete',
      ({ cancelled }) => cancelled,
    );
    counter('blockdelta_stream_messages_total', 'messages sent on streams', ({ sums }) => sums.total('messages'));
    counter('blockdelta_stream_bytes_total', 'bytes of the messages sent on streams', ({ sums }) =>
      sums.total('wireBytes'),
    );
    counter(
      'blockdelta_stream_waits_total',
      'pauses in which streams waited for their clients to take messages',
      ({ sums }) => sums.total('waits'),
    );
    counter(
      'blockdelta_stream_wait_seconds_total',
      'time that streams have waited for their clients to take messages',
      ({ sums }) => sums.total('waitMs') / 1000,
    );
  }

  #totalsOf(rpc: ObservedRpc): MethodTotals {
    const key = `${rpc.service}.${rpc.name}`;
    const known = this.#totals.get(key);
    if (known !== undefined) return known;
    const totals: MethodTotals = {
      labels: { grpc_service: rpc.service, method: rpc.name },
      streams: 0,
      cancelled: 0,
      sums: new RunningSums(['messages', 'wireBytes', 'waits', 'waitMs']),
    };
    this.#totals.set(key, totals);
    return totals;
  }
}
