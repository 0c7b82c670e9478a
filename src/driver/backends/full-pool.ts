/**
 * The errors of a pool without space, whichever system call noticed the lack of space: they name the pool, its free bytes and
 * the operation, in place of a path inside the pool. For all backends.
 */
import { CsiError, errorCode } from '../../base/errors.js';
import type { Backend } from './backend.js';

/** Errnos of a file system without space, and of a project or user without quota. */
const FULL: readonly unknown[] = ['ENOSPC', 'EDQUOT'];

/** What the methods that take space need it for, as a phrase that follows "no space for". */
const TAKES_SPACE: ReadonlyMap<string, string> = new Map([
  ['volumes.create', 'the volume'],
  ['volumes.expand', 'the larger volume'],
  ['snapshots.create', 'the snapshot'],
  ['replicas.begin', 'the replica'],
  ['marks.set', 'the mark that the volume is initialized'],
  ['bases.retain', 'the retained base'],
]);

const FACETS: ReadonlySet<unknown> = new Set<keyof Backend>([
  'volumes',
  'snapshots',
  'attachments',
  'marks',
  'bases',
  'changes',
  'replicas',
]);

/** The backend with errors that explain a full pool. An error that already names the pool stays as it is. */
export function namingFullPool(backend: Backend): Backend {
  return new Proxy(backend, {
    get: (target, name) => {
      const member: unknown = Reflect.get(target, name, target);
      if (!FACETS.has(name)) return explaining(backend, target, member, String(name));
      const facet = member as object | undefined;
      if (facet === undefined) return undefined;
      return new Proxy(facet, {
        get: (part, method) => {
          const called: unknown = Reflect.get(part, method, part);
          return explaining(backend, part, called, `${String(name)}.${String(method)}`);
        },
      });
    },
  });
}

/** Returns the member as it is or, if it is a function, a function whose failures are explained. */
function explaining(backend: Backend, owner: object, member: unknown, method: string): unknown {
  if (typeof member !== 'function') return member;
  return (...args: unknown[]): unknown => {
    const result: unknown = Reflect.apply(member, owner, args);
    if (!(result instanceof Promise)) return result;
    return result.catch(async (thrown: unknown) => {
      throw await explained(backend, method, thrown);
    });
  };
}

async function explained(backend: Backend, method: string, thrown: unknown): Promise<unknown> {
  if (!FULL.includes(errorCode(thrown))) return thrown;
  const { pool } = backend;
  const what = TAKES_SPACE.get(method) ?? 'the operation';
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
