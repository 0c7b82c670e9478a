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
  const path = method.split('.');
  const name = path.pop() ?? '';
  let owner = backend as object;
  for (const facet of path) owner = Reflect.get(owner, facet) as object;
  const call = Reflect.get(owner, name) as (...values: unknown[]) => unknown;
  return call.apply(owner, method === 'start' ? [] : args);
}

process.on('message', (call: BackendCall) => {
  perform(call).then(
    (value) => process.send?.({ value } satisfies BackendAnswer),
    (thrown: unknown) => process.send?.({ error: String(thrown) } satisfies BackendAnswer),
  );
});
process.on('disconnect', () => process.exit(0));
