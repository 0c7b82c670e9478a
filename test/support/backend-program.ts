/** The program of backend-process.ts: makes the calls that it is sent. Native calls run on the only thread. */
import { ThinBackend } from '../../src/driver/backends/thin/thin-backend.js';
import type { BackendAnswer, BackendCall, BackendOptions } from './backend-process.js';
import { openLedgerInline } from './direct-database.js';
import { nativeHere } from './native-here.js';

let backend: ThinBackend | undefined;

async function perform({ method, args }: BackendCall): Promise<unknown> {
  if (method === 'start') {
    const options = { ...(args[0] as BackendOptions), onEvent: () => undefined };
    backend = new ThinBackend(nativeHere(), options, openLedgerInline);
  }
  const call = Reflect.get(backend as object, method) as (...values: unknown[]) => Promise<unknown>;
  return call.apply(backend, method === 'start' ? [] : args);
}

process.on('message', (call: BackendCall) => {
  perform(call).then(
    (value) => process.send?.({ value } satisfies BackendAnswer),
    (thrown: unknown) => process.send?.({ error: String(thrown) } satisfies BackendAnswer),
  );
});
process.on('disconnect', () => process.exit(0));
