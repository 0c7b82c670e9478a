/**
 * What a router adds to the calls that it passes to a node over TCP: for which node they are, and from which
 * of its own clients they come. Both sides of it: the names of the headers, and how a node reads them.
 *
 * An address does not identify a node: pods take over each other's, and lists of nodes are edited by hand. So
 * a node proves by its certificate who it is (base/listening/tls-files.ts), and every call names the node that
 * it is for, so that a node refuses all others whoever calls.
 */
import type { Metadata } from '@grpc/grpc-js';
import { CsiError, printable } from '../errors.js';

/** Value: see `nodeUri`. */
export const DESTINATION_HEADER = 'blockdelta-node';
/** Value: any text that is the same for all calls of one client of the router. */
export const CALLER_HEADER = 'blockdelta-caller';

/** Clients of one router that are told apart; beyond it the one that was seen first is forgotten. */
const MAX_CALLERS = 1024;
const MAX_CALLER_LENGTH = 64;

/**
 * Names a node in calls and in its certificate. Two drivers may run on one machine, so the driver counts too.
 * All of the id but letters, digits and `-._~` is percent-encoded in capitals, so that there is one text for each.
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
   * Stands for the client that makes the call, where clients share threads and streams fairly.
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
