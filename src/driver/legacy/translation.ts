/**
 * What a translation of an interface before CSI v1 is: a request of its own becomes a request of v1, goes to
 * the handler of v1, and the response comes back. Rules, locks and errors are those of v1. Knows no version.
 */
import type { handleUnaryCall } from '@grpc/grpc-js';
import {
  type Message,
  type NamedMembers,
  type RequestOf,
  ResponseParts,
} from '../../base/csi/service.js';
import { CsiError } from '../../base/errors.js';
import type { Fields, V1Calls } from './v1-calls.js';

export type Translation<Request, Response> = (
  request: Request,
  v1: V1Calls,
) => Promise<Response | ResponseParts<Response>>;

/** A translation for every RPC of a service, from its generated handlers. */
export type Translations<Handlers> = {
  readonly [R in keyof NamedMembers<Handlers>]: NamedMembers<Handlers>[R] extends handleUnaryCall<
    infer Request,
    infer Response
  >
    ? Translation<Message<Request>, Message<Response>>
    : never;
};

/** A translation that is known only at run time, as the server finds it. */
export type AnyTranslation = Translation<never, object>;

export type LegacyServiceName = 'Identity' | 'Controller' | 'Node';

/** The response, or each part of it. */
export function mapResponse<From, To>(
  response: From | ResponseParts<From>,
  convert: (message: From) => To,
): To | ResponseParts<To> {
  if (!(response instanceof ResponseParts)) return convert(response);
  return new ResponseParts(mapParts(response.parts, convert));
}

async function* mapParts<From, To>(
  parts: AsyncIterable<From>,
  convert: (message: From) => To,
): AsyncIterable<To> {
  for await (const part of parts) yield convert(part);
}

type V1Capability = Fields<RequestOf<'CreateVolume'>['volume_capabilities'][number]>;

/** Of both old versions, whose capabilities have the same fields. */
export interface OldCapability {
  readonly block?: object | null;
  readonly mount?: { readonly fs_type: string; readonly mount_flags: readonly string[] } | null;
  readonly access_mode: { readonly mode: string | number } | null;
}

/** INVALID_ARGUMENT for a mode that the old version does not have: v1 may give its number a meaning. */
export function capability(given: OldCapability | null, field: string): V1Capability | null {
  if (given === null) return null;
  const { block, mount, access_mode } = given;
  const mode = access_mode?.mode;
  if (typeof mode === 'number') {
    throw CsiError.invalidArgument(
      `${field}.access_mode.mode ${mode} is not known in this version of CSI`,
    );
  }
  return { block, mount, access_mode } as V1Capability;
}

export function capabilities(list: readonly OldCapability[], field: string): V1Capability[] {
  return list.map((each, index) => capability(each, `${field}[${index}]`) as V1Capability);
}

/** The types of a list of capabilities that the enum of the old version knows, without UNKNOWN. */
export function knownTypes<Type extends string>(
  types: readonly (string | number | undefined)[],
  known: readonly Type[],
): Type[] {
  return known.filter((type) => types.includes(type));
}
