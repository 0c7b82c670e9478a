/**
 * Pages of lists. A token means "after this id", not "from this index", so it stays valid while entries
 * are created and deleted, including the one it names. Knows nothing of what is listed.
 */

import { createHash } from 'node:crypto';
import { CsiError } from '../errors.js';
import { parseInt32NonNegative } from './fields.js';
import { ResponseParts } from './service.js';

/** CSI's limit for a token. */
export const MAX_TOKEN_CHARACTERS = 128;
const DIGEST_BYTES = 4;

/** The list that a token belongs to: one RPC with one filter. Made by `pageScope`. */
export type PageScope = string & { readonly __brand: 'PageScope' };

export interface PageRequest {
  /** 0 sets no limit. */
  readonly maxEntries: number;
  /** Empty to begin with the first entry. */
  readonly startingToken: string;
  readonly scope: PageScope;
}

export interface Page<T> {
  readonly entries: readonly T[];
  /** Empty on the last page. */
  readonly nextToken: string;
}

/** @param filters in a fixed order; an unset filter is '' */
export function pageScope(rpc: string, ...filters: readonly string[]): PageScope {
  return JSON.stringify([rpc, ...filters]) as PageScope;
}

/**
 * Layout, in base64url: a 4-byte digest of the scope, a 4-byte digest of scope and id, the id. The
 * digests detect mistakes. They do not protect against forged tokens, from which nothing can be gained.
 *
 * @throws CsiError INTERNAL if the id is longer than 88 bytes, which no id of ours is
 */
export function encodeToken(scope: PageScope, afterId: string): string {
  const parts = [scopeDigest(scope), idDigest(scope, afterId), Buffer.from(afterId)];
  const token = Buffer.concat(parts).toString('base64url');
  if (token.length > MAX_TOKEN_CHARACTERS) {
    throw CsiError.internal(`id ${afterId} is too long for a page token`);
  }
  return token;
}

/** The id after which the page begins; null for the first page. Throws ABORTED for anything but a token of this scope. */
export function decodeToken(scope: PageScope, token: string): string | null {
  if (token === '') return null;
  const bytes = Buffer.from(token, 'base64url');
  const id = bytes.subarray(2 * DIGEST_BYTES).toString();
  // The decoder skips invalid characters; a genuine token encodes to itself again.
  if (bytes.length <= 2 * DIGEST_BYTES || bytes.toString('base64url') !== token) {
    throw CsiError.aborted('starting_token is malformed; list again from the beginning');
  }
  if (!bytes.subarray(0, DIGEST_BYTES).equals(scopeDigest(scope))) {
    throw CsiError.aborted('starting_token belongs to another list or filter; list again from the beginning');
  }
  if (!bytes.subarray(DIGEST_BYTES, 2 * DIGEST_BYTES).equals(idDigest(scope, id))) {
    throw CsiError.aborted('starting_token is damaged; list again from the beginning');
  }
  return id;
}

/** How many entries are fetched and encoded at once: a few milliseconds of the event loop. */
const BATCH_ENTRIES = 500;

/**
 * The page that a request asks for, of a list that is fetched in batches. Only the last batch has a token.
 *
 * @param fetch returns at most `limit` items, ascending by id in the order of `<`, whose ids are greater than `after`; ''
 *   begins the list
 * @throws CsiError ABORTED if the token is not one of this scope
 */
export async function* paginate<T>(
  fetch: (after: string, limit: number) => Promise<readonly T[]> | readonly T[],
  idOf: (item: T) => string,
  request: PageRequest,
): AsyncGenerator<Page<T>> {
  let after = decodeToken(request.scope, request.startingToken) ?? '';
  let left = request.maxEntries === 0 ? Number.POSITIVE_INFINITY : request.maxEntries;
  for (;;) {
    const count = Math.min(left, BATCH_ENTRIES);
    // One more than needed shows whether entries remain.
    const found = await fetch(after, count + 1);
    const entries = found.slice(0, count);
    if (found.length <= count) return yield { entries, nextToken: '' };
    left -= entries.length;
    after = idOf(entries.at(-1) as T);
    if (left === 0) return yield { entries, nextToken: encodeToken(request.scope, after) };
    yield { entries, nextToken: '' };
  }
}

interface ListOf<Entry> {
  entries: Entry[];
  next_token: string;
}

/** One response, or one part for each batch of a longer list, so that no step blocks the event loop for long. */
export async function listResponse<T, Entry>(
  pages: AsyncGenerator<Page<T>>,
  entriesOf: (items: readonly T[]) => Promise<Entry[]> | Entry[],
): Promise<ListOf<Entry> | ResponseParts<ListOf<Entry>>> {
  const message = async ({ entries, nextToken }: Page<T>): Promise<ListOf<Entry>> => ({
    entries: await entriesOf(entries),
    next_token: nextToken,
  });
  const parts = (async function* () {
    for await (const page of pages) yield message(page);
  })();
  const first = await parts.next();
  const second = await parts.next();
  if (second.done === true) return first.value as ListOf<Entry>;
  return new ResponseParts(
    (async function* () {
      yield first.value as ListOf<Entry>;
      yield second.value;
      yield* parts;
    })(),
  );
}

function scopeDigest(scope: PageScope): Buffer {
  return digest(scope);
}

/** The NUL separates scope and id: JSON text contains none. */
function idDigest(scope: PageScope, id: string): Buffer {
  return digest(`${scope}\0${id}`);
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest().subarray(0, DIGEST_BYTES);
}

export interface PageParams {
  maxEntries: number;
  startingToken: string;
}

/** The fields that the requests of all lists have in common. */
interface PageFields {
  readonly max_entries: number;
  readonly starting_token: string;
}

/** Does not check the token: any fault in the token, including its length, is ABORTED when the token is decoded. */
export function parsePage(request: PageFields): PageParams {
  return {
    maxEntries: parseInt32NonNegative(request.max_entries, 'max_entries'),
    startingToken: request.starting_token,
  };
}
