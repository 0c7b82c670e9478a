/**
 * What a router adds to the calls that it passes to a node over TCP: for which node they are, and from which
 * of its own clients they come. Both sides of it: the names of the headers, and how a node reads them.
 *
 * An address does not identify a node: pods take over each other's, and lists of nodes are edited by hand. So
 * every call names the node that it is for, and a node refuses all others. A check when a connection opens
 * would not do, because gRPC connections are replaced at any time.
 */
import type { Metadata } from '@grpc/grpc-js';
import { CsiError, printable } from '../errors.js';

/** Value: see `destinationOf`. */
export const DESTINATION_HEADER = 'blockdelta-node';
/** Value: any text that is the same for all calls of one client of the router. */
export const CALLER_HEADER = 'blockdelta-caller';

/** Clients of one router that are told apart; beyond it the one that was seen first is forgotten. */
const MAX_CALLERS = 1024;
const MAX_CALLER_LENGTH = 64;

/** Two drivers may run on one node, so the driver counts too. Neither part contains a slash or a space. */
export function destinationOf(driverName: string, nodeId: string): string {
  return `${driverName} ${nodeId}`;
}

/** The clients behind one connection of a router. */
export class RoutedCallers {
  readonly #destination: string;
  /** Stands for calls that name no client. */
  readonly #unnamed = {};
  readonly #callers = new Map<string, object>();

  /** @param destination of this node */
  constructor(destination: string) {
    this.#destination = destination;
  }

  /**
   * Stands for the client that makes the call, where clients share threads and streams fairly.
   *
   * @throws CsiError UNAVAILABLE if the call is for another node
   */
  callerOf(metadata: Metadata): object {
    const [destination = ''] = metadata.get(DESTINATION_HEADER);
    if (String(destination) !== this.#destination) {
      throw CsiError.unavailable(
        `this is node '${this.#destination}', and the call is for '${printable(String(destination), 200)}': ` +
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
