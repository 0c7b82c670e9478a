/** A call refused by a fake driver: a gRPC status, and the type of a handler. */
import { Metadata, status } from '@grpc/grpc-js';

// biome-ignore lint/suspicious/noExplicitAny: messages are plain objects of the proto's shape
export type Message = Record<string, any>;
export type Rpc = (request: Message) => Promise<Message> | Message;
export type Rpcs = Record<string, Rpc>;

export class Refusal extends Error {
  /** Trailing metadata; a correct driver sends none. */
  readonly metadata = new Metadata();

  constructor(
    readonly code: status,
    readonly details: string,
  ) {
    super(details);
  }
}

export type RefusalName = keyof typeof status;

export function refusal(code: RefusalName, details: string): Refusal {
  return new Refusal(status[code], details);
}

/** INVALID_ARGUMENT if a REQUIRED field is missing. */
export function demand(request: Message, ...fields: string[]): void {
  for (const field of fields) {
    const value: unknown = request[field];
    const isMissing =
      value === null || value === undefined || value === '' || (Array.isArray(value) && value.length === 0);
    if (isMissing) throw refusal('INVALID_ARGUMENT', `${field} is required`);
  }
}
