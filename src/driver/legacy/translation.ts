/**
 * How an interface before CSI v1 is translated: its request becomes a request of v1 and goes to the handler of v1,
 * whose response is translated back. Rules, locks and errors are those of v1. Knows no version.
 */
import { ResponseParts, type RpcName } from '../../base/csi/service.js';
import { CsiError } from '../../base/errors.js';
import type { Message, V1Calls } from './v1-calls.js';

/** Resolves to the response, or to its parts. */
export type Translation = (request: Message, v1: V1Calls) => Promise<object>;
export type Translations = Readonly<Record<string, Translation>>;

/** Translates to the RPC of v1 with the same meaning. Without `answer`, the response of v1 is returned unchanged. */
export function as(rpc: RpcName, answer?: (response: Message) => object): Translation {
  return async (request, v1) => {
    const response = await v1.list(rpc, v1.fieldsOf(rpc, request));
    if (answer === undefined) return response;
    if (!(response instanceof ResponseParts)) return answer(response);
    return new ResponseParts(mapParts(response.parts, answer));
  };
}

async function* mapParts(parts: AsyncIterable<object>, answer: (response: Message) => object): AsyncIterable<object> {
  for await (const part of parts) yield answer(part);
}

/** Translates a list whose entries hold one object each. */
export function asList(rpc: RpcName, entryOf: (entry: Message) => object): Translation {
  return as(rpc, ({ entries = [], next_token = '' }) => ({
    entries: entries.map(entryOf),
    next_token,
  }));
}

/** Translates capabilities, and leaves out the types that the older version does not know. */
export function asTypes(rpc: RpcName, known: readonly string[]): Translation {
  return as(rpc, ({ capabilities = [] }) => {
    const types = capabilities.map((capability: Message) => capability['rpc']?.type);
    return {
      capabilities: known.filter((type) => types.includes(type)).map((type) => ({ rpc: { type } })),
    };
  });
}

export const availableCapacity = as('GetCapacity', ({ available_capacity = '0' }) => ({
  available_capacity,
}));

/** Answers with `supported`, and with the reason if the capabilities are not supported. */
export const validated = as('ValidateVolumeCapabilities', ({ confirmed, message }) =>
  confirmed ? { supported: true } : { supported: false, message: message ?? '' },
);

/** Returns an object that a response must have; INTERNAL if it is missing. */
export function present(object: Message | null | undefined, what: string): Message {
  if (!object) throw CsiError.internal(`the response has no ${what}`);
  return object;
}
