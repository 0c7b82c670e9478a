/**
 * What a pool without space answers, whichever of its system calls has noticed: the pool, its free bytes
 * and what was being done, in place of a path inside the pool. For all backends.
 */
import { CsiError, errorCode } from '../../base/errors.js';
import type { Backend } from './backend.js';

/** Errnos of a file system without space, and of a project or user without quota. */
const FULL: readonly unknown[] = ['ENOSPC', 'EDQUOT'];

/** What the methods do that take space, as it follows "no space for". */
const TAKES_SPACE: Partial<Record<keyof Backend, string>> = {
  createVolume: 'the volume',
  restoreVolume: 'the restored volume',
  cloneVolume: 'the clone',
  expandVolume: 'the larger volume',
  createSnapshots: 'the snapshot',
  markInitialized: 'the mark that the volume is initialized',
  retainBase: 'the retained base',
};

/** The backend, with other errors where its pool has no space. An error that names the pool stays as it is. */
export function namingFullPool(backend: Backend): Backend {
  return new Proxy(backend, {
    get: (target, name) => {
      const member: unknown = Reflect.get(target, name, target);
      if (typeof member !== 'function') return member;
      return (...args: unknown[]): unknown => {
        const result: unknown = Reflect.apply(member, target, args);
        if (!(result instanceof Promise)) return result;
        return result.catch(async (thrown: unknown) => {
          throw await explained(target, String(name), thrown);
        });
      };
    },
  });
}

async function explained(backend: Backend, method: string, thrown: unknown): Promise<unknown> {
  if (!FULL.includes(errorCode(thrown))) return thrown;
  const { pool } = backend;
  const what = TAKES_SPACE[method as keyof Backend] ?? 'the operation';
  return CsiError.resourceExhausted(
    `pool '${pool}' has no space for ${what}: ${await freeBytes(backend)}; delete snapshots or volumes, or add ` +
      'space, then try again',
    { cause: thrown },
  );
}

async function freeBytes(backend: Backend): Promise<string> {
  try {
    const { freeBytes: free, totalBytes } = await backend.capacity();
    return `${free} of its ${totalBytes} bytes are free`;
  } catch {
    return 'how much is free cannot be read';
  }
}
