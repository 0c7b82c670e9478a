/** The program of backend-process.ts: makes the calls that it is sent. Native calls run on the only thread. */
import { ThinBackend } from '../../src/backends/thin/thin-backend.js';
import type { BackendAnswer, BackendCall, BackendOptions } from './backend-process.js';
import { openLedgerInline } from './direct-database.js';
import { nativeHere } from './native-here.js';

let backend: ThinBackend | undefined;

async function perform({ method, args }: BackendCall): Promise<void> {
  if (method === 'start') {
    const options = { ...(args[0] as BackendOptions), onEvent: () => undefined };
    backend = new ThinBackend(nativeHere(), options, openLedgerInline);
  }
  const call = Reflect.get(backend as object, method) as (...values: unknown[]) => Promise<unknown>;
  await call.apply(backend, method === 'start' ? [] : args);
}

process.on('message', (call: BackendCall) => {
  perform(call).then(
    () => process.send?.(null satisfies BackendAnswer),
    (thrown: unknown) => process.send?.(String(thrown) satisfies BackendAnswer),
  );
});
process.on('disconnect', () => process.exit(0));
