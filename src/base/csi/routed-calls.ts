/**
 * The headers that a router adds to the calls that it passes to a node over TCP: the node that a call is for, and the client of
 * the router that makes the call. Both sides use this file: it has the names of the headers, and reads them for the node.
 *
 * An address does not identify a node, because pods take over the addresses of others and lists of nodes are edited by hand. So
 * a node proves its identity by its certificate (base/listening/tls-files.ts). And every call names the node that it is for, so
 * that a node refuses calls for other nodes, whoever makes them.
 */
import type { Metadata } from '@grpc/grpc-js';
import { CsiError, printable } from '../errors.js';

/** The value is the URI from `nodeUri`. */
export const DESTINATION_HEADER = 'blockdelta-node';
/** The value is any text that is the same for all calls of one client of the router. */
export const CALLER_HEADER = 'blockdelta-caller';

/** How many clients behind one connection are told apart. Beyond this number, the client that was seen first is forgotten. */
const MAX_CALLERS = 1024;
const MAX_CALLER_LENGTH = 64;

/**
 * Names a node in calls and in its certificate. The URI includes the driver, because two drivers may run on one machine. All
 * characters of the id except letters, digits and `-._~` are percent-encoded in capitals, so that each node has only one URI.
 */
export function nodeUri(driverName: string, nodeId: string): string {
  const id = encodeURIComponent(nodeId).replace(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
  return `blockdelta://${driverName}/node/${id}`;
}

/** The clients behind one connection of a router. */
export class RoutedCallers {
  readonly #nodeUri: string;
  /** Stands for calls that name no client. */
  readonly #unnamed = {};
  readonly #callers = new Map<string, object>();

  /** @param uri of this node */
  constructor(uri: string) {
    this.#nodeUri = uri;
  }

  /**
   * The object that stands for the client of the call where clients share threads and streams fairly.
   *
   * @throws CsiError UNAVAILABLE if the call is for another node
   */
  callerOf(metadata: Metadata): object {
    const [destination = ''] = metadata.get(DESTINATION_HEADER);
    if (String(destination) !== this.#nodeUri) {
      throw CsiError.unavailable(
        `this is '${this.#nodeUri}', and the call is for '${printable(String(destination), 500)}': ` +
          "correct the addresses in the router's list of nodes",
      );
    }
    const [given = ''] = metadata.get(CALLER_HEADER);
    const name = String(given).slice(0, MAX_CALLER_LENGTH);
    if (name === '') return this.#unnamed;
    return this.#callers.get(name) ?? this.#add(name);
  }

  #add(name: string): object {
    const [oldest] = this.#callers.keys();
    if (this.#callers.size >= MAX_CALLERS && oldest !== undefined) this.#callers.delete(oldest);
    const caller = {};
    this.#callers.set(name, caller);
    return caller;
  }
}
