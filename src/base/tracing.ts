/**
 * Spans by OpenTelemetry's API. Without an SDK in the process, which nothing here loads, a span is an object
 * that does nothing. Knows neither calls nor devices.
 */
import {
  type Attributes,
  context,
  propagation,
  ROOT_CONTEXT,
  type Span,
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
  /** The span serves a call from outside, and continues the trace that its headers name. */
  servedFor?: Carrier;
}

// A provider that is registered later is used from then on.
const tracer = trace.getTracer('blockdelta');

/** Runs `work` in a span, which is the parent of spans that start meanwhile and ends with it. */
export function inSpan<T>(options: SpanOptions, work: (span: Span) => Promise<T>): Promise<T> {
  const { name, attributes, servedFor } = options;
  const isServed = servedFor !== undefined;
  const parent = isServed ? extracted(servedFor) : context.active();
  const kind = isServed ? SpanKind.SERVER : SpanKind.INTERNAL;
  return tracer.startActiveSpan(name, { kind, attributes }, parent, async (span) => {
    try {
      return await work(span);
    } catch (thrown) {
      span.setStatus({ code: SpanStatusCode.ERROR, message: messageOf(thrown) });
      throw thrown;
    } finally {
      span.end();
    }
  });
}

function extracted(carrier: Carrier) {
  return propagation.extract(ROOT_CONTEXT, carrier, {
    keys: (from) => from.names(),
    get: (from, name) => from.value(name),
  });
}
