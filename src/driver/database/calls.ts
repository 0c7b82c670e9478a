/**
 * Declares the calls of a database: each call once, as a method wrapped in its kind (its use of disk space), as in
 *
 *   insertVolume: takesSpace((volume: VolumeRecord): void => ...)
 *
 * The service reads the kind to decide which calls run while the directory is full, the client learns the names from the
 * thread that has opened the database, and the types of the synchronous and the asynchronous calls follow from the methods.
 * Knows no SQL, so that the event loop can use the types without loading any.
 */

/**
 * What a call does with space in the database's directory: `reads` uses none, `takesSpace` begins something new, `freesSpace`
 * records that something goes away, `writes` is any other change. Every call that is not `reads` runs in one transaction.
 */
export type CallKind = 'reads' | 'writes' | 'takesSpace' | 'freesSpace';

type Method = (...args: never[]) => unknown;

export type DatabaseCall<M extends Method = Method> = M & {
  /** A function if the kind depends on the arguments. */
  readonly kind: CallKind | ((...args: Parameters<M>) => CallKind);
};

/** The constraint on a set of calls: each method is wrapped in its kind. */
export type DatabaseCalls<T> = { readonly [K in keyof T]: DatabaseCall };

/** The same calls, answered by the thread that owns the database. */
export type AsyncCalls<T> = {
  [K in keyof T]: T[K] extends (...args: infer A) => infer R ? (...args: A) => Promise<R> : never;
};

export function reads<M extends Method>(method: M): DatabaseCall<M> {
  return Object.assign(method, { kind: 'reads' as const });
}

export function writes<M extends Method>(method: M): DatabaseCall<M> {
  return Object.assign(method, { kind: 'writes' as const });
}

export function takesSpace<M extends Method>(method: M): DatabaseCall<M> {
  return Object.assign(method, { kind: 'takesSpace' as const });
}

export function freesSpace<M extends Method>(method: M): DatabaseCall<M> {
  return Object.assign(method, { kind: 'freesSpace' as const });
}

/** A call that takes space with some arguments and frees it with all others. */
export function takesSpaceIf<M extends Method>(takes: (...args: Parameters<M>) => boolean, method: M): DatabaseCall<M> {
  const kind = (...args: Parameters<M>): CallKind => (takes(...args) ? 'takesSpace' : 'freesSpace');
  return Object.assign(method, { kind });
}
