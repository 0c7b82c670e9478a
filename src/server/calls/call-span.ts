/** The span of a call: from its handler's start to its end, in the trace of the caller. */
import type { Metadata } from '@grpc/grpc-js';
import { CsiError } from '../../base/errors.js';
import { inSpan } from '../../base/tracing.js';

/** Names follow OpenTelemetry's conventions for RPCs. */
export function inCallSpan<T>(
  rpc: { readonly fullService: string; readonly name: string },
  metadata: Metadata,
  work: () => Promise<T>,
): Promise<T> {
  const { fullService: service } = rpc;
  const options = {
    name: `${service}/${rpc.name}`,
    attributes: { 'rpc.system': 'grpc', 'rpc.service': service, 'rpc.method': rpc.name },
    servedFor: {
      names: () => Object.keys(metadata.getMap()),
      value: (name: string) => textOf(metadata, name),
    },
  };
  return inSpan(options, async (span) => {
    try {
      const result = await work();
      span.setAttribute('rpc.grpc.status_code', 0);
      return result;
    } catch (thrown) {
      span.setAttribute('rpc.grpc.status_code', CsiError.from(thrown).code);
      throw thrown;
    }
  });
}

/** Binary values are left out. */
function textOf(metadata: Metadata, name: string): string | undefined {
  const [value] = metadata.get(name);
  return typeof value === 'string' ? value : undefined;
}
