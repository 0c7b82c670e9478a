/**
 * Spans through OpenTelemetry's API. Nothing here loads an SDK, and without an SDK in the process a span is an object that does
 * nothing. Knows neither calls nor devices.
 */
import {
  type Attributes,
  context,
  propagation,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace,
} from '@opentelemetry/api';
import { messageOf } from './errors.js';

/** Headers that came with a call, such as traceparent. */
export interface Carrier {
  names(): string[];
  value(name: string): string | undefined;
}

export interface SpanOptions {
  name: string;
  attributes: Attributes;
  /** Given if the span serves a call from outside. The span then continues the trace that the call's headers name. */
  servedFor?: Carrier;
}

// A provider that is registered later takes effect from then on.
const tracer = trace.getTracer('blockdelta');

export interface OpenSpan {
  /** Runs `work`. Spans that open in `work`, or in asynchronous work that it starts, are children of this span. */
  run<T>(work: () => T): T;
  /** @param failure the message of the failure; null if the work of the span has succeeded */
  end(failure: string | null, attributes?: Attributes): void;
}

/** Opens a span. The caller must end it with end(). */
export function openSpan({ name, attributes, servedFor }: SpanOptions): OpenSpan {
  const isServed = servedFor !== undefined;
  const parent = isServed ? extracted(servedFor) : context.active();
  const kind = isServed ? SpanKind.SERVER : SpanKind.INTERNAL;
  const span = tracer.startSpan(name, { kind, attributes }, parent);
  const inside = trace.setSpan(parent, span);
  return {
    run: (work) => context.with(inside, work),
    end: (failure, more = {}) => {
      span.setAttributes(more);
      if (failure !== null) span.setStatus({ code: SpanStatusCode.ERROR, message: failure });
      span.end();
    },
  };
}

/** Runs `work` in a span that ends with it. */
export async function inSpan<T>(options: SpanOptions, work: () => Promise<T>): Promise<T> {
  const span = openSpan(options);
  let failure: string | null = null;
  try {
    return await span.run(work);
  } catch (thrown) {
    failure = messageOf(thrown);
    throw thrown;
  } finally {
    span.end(failure);
  }
}

function extracted(carrier: Carrier) {
  return propagation.extract(ROOT_CONTEXT, carrier, {
    keys: (from) => from.names(),
    get: (from, name) => from.value(name),
  });
}
