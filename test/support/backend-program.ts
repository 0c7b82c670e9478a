/** The program of backend-process.ts: makes the calls that it is sent. Native calls run on the only thread. */
import { ThinBackend } from '../../src/backends/thin/thin-backend.js';
import { SystemError } from '../../src/base/errors.js';
import { loadAddon } from '../../src/native/addon.js';
import type { NativeRunner } from '../../src/native/pool.js';
import type { BackendAnswer, BackendCall, BackendOptions } from './backend-process.js';
import { openLedgerInline } from './direct-database.js';

const addon = loadAddon() as unknown as Record<string, (request: unknown) => NativeAnswer>;

type NativeAnswer =
  | { ok: true }
  | { ok: false; code: string; syscall: string; path: string; message: string };

const native = {
  run: async (method: string, request: unknown): Promise<NativeAnswer> => {
    const answer = addon[method]?.(request);
    if (answer === undefined) throw new Error(`the addon has no ${method}`);
    if (!answer.ok) {
      throw new SystemError(answer.code, answer.syscall, answer.path, answer.message);
    }
    return answer;
  },
} as unknown as NativeRunner;

let backend: ThinBackend | undefined;

async function perform({ method, args }: BackendCall): Promise<void> {
  if (method === 'start') {
    const options = { ...(args[0] as BackendOptions), onEvent: () => undefined };
    backend = new ThinBackend(native, options, openLedgerInline);
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
