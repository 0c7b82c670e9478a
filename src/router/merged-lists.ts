/**
 * Lists over all nodes: the lists of the nodes one after the other, in the order of the node keys.
 *
 * A token names the node where the list continues, and contains that node's own token. Entries are passed on as bytes. Adding
 * or removing a node between two pages changes nothing for the other nodes: after a node has gone, the list continues behind
 * its key. A node that cannot be reached makes the list fail, because callers assume that unlisted objects are deleted.
 */
import protobuf from 'protobufjs';
import { MAX_TOKEN_CHARACTERS } from '../base/csi/pagination.js';
import { CsiError } from '../base/errors.js';
import { fieldsOf } from './messages.js';

/** The fields of all lists of CSI. */
const ENTRIES = 1;
const NEXT_TOKEN = 2;
/** A page ends above this size, as clients refuse messages over 4 MiB. */
const MAX_PAGE_BYTES = 3 << 20;

/** Where a page begins: a node, and the node's own token, which is empty for the node's first entry. */
export interface Position {
  readonly key: string;
  readonly token: string;
}

export interface ListRequest {
  /** 0 means no limit. */
  readonly maxEntries: number;
  readonly startingToken: string;
}

/** Asks the node with this key for a page. Resolves to its encoded response. */
export type AskPage = (key: string, request: ListRequest) => Promise<Buffer>;

export function encodePosition({ key, token }: Position): string {
  const text = `${key}.${token}`;
  if (text.length > MAX_TOKEN_CHARACTERS) {
    throw CsiError.internal(`the token of the node with the key ${key} is too long to be passed on`);
  }
  return text;
}

/** Null for the beginning. Throws ABORTED for anything but a token of the router, as CSI requires. */
export function decodePosition(text: string): Position | null {
  if (text === '') return null;
  const match = /^([0-9a-f]{12})\.([A-Za-z0-9_-]*)$/.exec(text);
  if (match === null) {
    throw CsiError.aborted('starting_token is malformed; list again from the beginning');
  }
  return { key: match[1] ?? '', token: match[2] ?? '' };
}

/** @param keys the keys of all nodes, ascending */
export async function mergedPage(
  keys: readonly string[],
  { maxEntries, startingToken }: ListRequest,
  ask: AskPage,
): Promise<Buffer> {
  const start = decodePosition(startingToken);
  const rest = start === null ? [...keys] : keys.filter((key) => key >= start.key);
  const page = new Page(maxEntries);
  let position: Position | null = firstOf(rest, start);
  while (position !== null) {
    if (page.isFull) return page.encode(encodePosition(position));
    const { key, token } = position;
    const response = await ask(key, { maxEntries: page.room, startingToken: token });
    const nextToken = page.add(response);
    if (nextToken !== '') {
      position = { key, token: nextToken };
    } else {
      rest.shift();
      position = firstOf(rest, null);
    }
  }
  return page.encode('');
}

/** The position at the first key; null if there is no key. A token counts only for its own node. */
function firstOf(keys: readonly string[], start: Position | null): Position | null {
  const [key] = keys;
  if (key === undefined) return null;
  return { key, token: start?.key === key ? start.token : '' };
}

class Page {
  readonly #pieces: Buffer[] = [];
  #entries = 0;
  #bytes = 0;

  constructor(private readonly maxEntries: number) {}

  get isFull(): boolean {
    return this.#bytes > MAX_PAGE_BYTES || (this.maxEntries > 0 && this.room <= 0);
  }

  /** How many entries may follow. If the page has no limit, 0 means any number. */
  get room(): number {
    return this.maxEntries === 0 ? 0 : this.maxEntries - this.#entries;
  }

  /** Adds the response of a node, except its token. Returns the token. */
  add(response: Buffer): string {
    let nextToken = '';
    for (const { number, bytes, content } of fieldsOf(response)) {
      if (number === NEXT_TOKEN) {
        nextToken = content?.toString() ?? '';
        continue;
      }
      if (number === ENTRIES) this.#entries += 1;
      this.#pieces.push(bytes);
      this.#bytes += bytes.length;
    }
    return nextToken;
  }

  encode(nextToken: string): Buffer {
    if (nextToken === '') return Buffer.concat(this.#pieces);
    const writer = new protobuf.BufferWriter();
    writer.uint32((NEXT_TOKEN << 3) | 2).string(nextToken);
    return Buffer.concat([...this.#pieces, writer.finish()]);
  }
}
