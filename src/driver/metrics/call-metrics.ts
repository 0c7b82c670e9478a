/**
 * Counts RPCs and streams, whatever the services behind them do: for the plugin and for any other server
 * whose calls go through csi/calls.ts.
 */
import { Counter, type CounterConfiguration, Gauge, Histogram, type Registry } from 'prom-client';
import type { CallObserver, ObservedRpc, StreamSums } from '../csi/call-observer.js';

/** From a look-up in memory to a copy that takes minutes. */
const CALL_SECONDS = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300];
const FIRST_MESSAGE_SECONDS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1, 5, 30];

// Prometheus itself puts a label 'service' on targets of Kubernetes services.
const RPC_LABELS = ['grpc_service', 'method'] as const;
type RpcLabel = (typeof RPC_LABELS)[number];
type SumName = keyof StreamSums;

/** The totals of all streams of a method. */
interface MethodTotals {
  readonly labels: Record<RpcLabel, string>;
  streams: number;
  cancelled: number;
  /** Sums of the streams that have ended. */
  ended: Record<SumName, number>;
  open: Set<StreamSums>;
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
    this.#defineStreams(registers);
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
    totals.open.add(sums);
  }

  firstMessageSent(rpc: ObservedRpc, seconds: number): void {
    this.#firstMessage.observe({ grpc_service: rpc.service, method: rpc.name }, seconds);
  }

  streamEnded(rpc: ObservedRpc, sums: StreamSums, isCancelled: boolean): void {
    const totals = this.#totalsOf(rpc);
    if (!totals.open.delete(sums)) return;
    if (isCancelled) totals.cancelled += 1;
    for (const name of Object.keys(totals.ended) as SumName[]) totals.ended[name] += sums[name];
  }

  /** Streams report nothing while they run: these metrics read their sums when they are collected. */
  #defineStreams(registers: Registry[]): void {
    const counter = (
      options: Pick<CounterConfiguration<RpcLabel>, 'name' | 'help'>,
      read: (totals: MethodTotals) => number,
    ): void => {
      const all = this.#totals;
      new Counter({
        ...options,
        labelNames: RPC_LABELS,
        registers,
        collect() {
          this.reset();
          for (const totals of all.values()) this.inc(totals.labels, read(totals));
        },
      });
    };
    const all = this.#totals;
    new Gauge({
      name: 'blockdelta_streams_open',
      help: 'streams in progress',
      labelNames: RPC_LABELS,
      registers,
      collect() {
        for (const { labels, open } of all.values()) this.set(labels, open.size);
      },
    });
    counter(
      { name: 'blockdelta_streams_total', help: 'streams that were started' },
      ({ streams }) => streams,
    );
    counter(
      {
        name: 'blockdelta_streams_cancelled_total',
        help: 'streams whose client went away, or whose deadline passed, before the list was complete',
      },
      ({ cancelled }) => cancelled,
    );
    counter(
      { name: 'blockdelta_stream_messages_total', help: 'messages sent on streams' },
      (totals) => sumOf(totals, 'messages'),
    );
    counter(
      { name: 'blockdelta_stream_bytes_total', help: 'bytes of the messages sent on streams' },
      (totals) => sumOf(totals, 'wireBytes'),
    );
    counter(
      {
        name: 'blockdelta_stream_waits_total',
        help: 'pauses of streams until their clients had taken messages',
      },
      (totals) => sumOf(totals, 'waits'),
    );
    counter(
      {
        name: 'blockdelta_stream_wait_seconds_total',
        help: 'time that streams have waited for their clients to take messages',
      },
      (totals) => sumOf(totals, 'waitMs') / 1000,
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
      ended: { messages: 0, wireBytes: 0, waits: 0, waitMs: 0 },
      open: new Set(),
    };
    this.#totals.set(key, totals);
    return totals;
  }
}

function sumOf({ ended, open }: MethodTotals, name: SumName): number {
  let sum = ended[name];
  for (const sums of open) sum += sums[name];
  return sum;
}
