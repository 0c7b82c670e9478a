/**
 * The smallest SDK behind OpenTelemetry's API: records the spans of this process and keeps the active one
 * over awaits. Register it once in a test file.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { randomBytes } from 'node:crypto';
import {
  type Attributes,
  type Context,
  type ContextManager,
  context,
  propagation,
  ROOT_CONTEXT,
  type Span,
  type SpanContext,
  type SpanOptions,
  trace,
} from '@opentelemetry/api';

export interface RecordedSpan {
  name: string;
  kind: number | undefined;
  attributes: Attributes;
  /** SpanStatusCode and the message. */
  status: { code: number; message?: string } | null;
  spanId: string;
  traceId: string;
  parentId: string | undefined;
  hasEnded: boolean;
}

export function recordSpans(): RecordedSpan[] {
  const spans: RecordedSpan[] = [];
  const start = (name: string, options: SpanOptions, parent: Context): Span => {
    const above = trace.getSpanContext(parent);
    const recorded: RecordedSpan = {
      ...{ name, kind: options.kind, attributes: { ...options.attributes }, status: null },
      spanId: randomBytes(8).toString('hex'),
      traceId: above?.traceId ?? randomBytes(16).toString('hex'),
      ...{ parentId: above?.spanId, hasEnded: false },
    };
    spans.push(recorded);
    return spanOf(recorded);
  };
  const tracer = {
    startSpan: (name: string, options: SpanOptions = {}, parent = context.active()) =>
      start(name, options, parent),
    startActiveSpan: (
      name: string,
      options: SpanOptions,
      parent: Context,
      work: (span: Span) => unknown,
    ) => {
      const span = start(name, options, parent);
      return context.with(trace.setSpan(parent, span), work, undefined, span);
    },
  };
  trace.setGlobalTracerProvider({ getTracer: () => tracer as never });
  context.setGlobalContextManager(new AsyncContexts());
  propagation.setGlobalPropagator({
    inject: () => undefined,
    fields: () => ['traceparent'],
    extract: (into, carrier, getter) => {
      const [, traceId, spanId] = String(getter.get(carrier, 'traceparent')).split('-');
      if (traceId === undefined || spanId === undefined) return into;
      return trace.setSpanContext(into, { traceId, spanId, traceFlags: 1 });
    },
  });
  return spans;
}

function spanOf(recorded: RecordedSpan): Span {
  const { spanId, traceId } = recorded;
  const span = {
    spanContext: (): SpanContext => ({ spanId, traceId, traceFlags: 1 }),
    setAttribute: (name: string, value: string | number) => {
      recorded.attributes[name] = value;
      return span;
    },
    setStatus: (status: { code: number; message?: string }) => {
      recorded.status = status;
      return span;
    },
    end: () => {
      recorded.hasEnded = true;
    },
  };
  return span as unknown as Span;
}

class AsyncContexts implements ContextManager {
  readonly #storage = new AsyncLocalStorage<Context>();

  active(): Context {
    return this.#storage.getStore() ?? ROOT_CONTEXT;
  }

  with<A extends unknown[], F extends (...args: A) => ReturnType<F>>(
    active: Context,
    work: F,
    thisArg?: ThisParameterType<F>,
    ...args: A
  ): ReturnType<F> {
    return this.#storage.run(active, () => work.apply(thisArg, args));
  }

  bind<T>(_context: Context, target: T): T {
    return target;
  }

  enable(): this {
    return this;
  }

  disable(): this {
    return this;
  }
}
