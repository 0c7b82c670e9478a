/** The fields of requests as the proto describes them, nested ones too, each with its place. */
import protobuf from 'protobufjs';
import { CSI_PACKAGE, csiProto } from '../../src/base/csi/proto.js';
import { checkoutText } from './checkout-text.js';
import type { Message } from './csi-client.js';

export const CSI_PROTO = checkoutText('proto/csi.proto');

export type FieldKind = 'string' | 'strings' | 'map' | 'integer' | 'enum';

export interface FieldPlace {
  kind: FieldKind;
  /** Names from the request down; an element of a list is in its place 0. */
  path: readonly string[];
  /** Whether the names before it, less the last, are lists of messages. */
  lists: readonly boolean[];
}

/** Every scalar, list, map and enum of a request, whatever message it is in. */
export function fieldsOf(typeName: string): FieldPlace[] {
  return placesIn(csiProto().root.lookupType(`${CSI_PACKAGE}.${typeName}`), [], []);
}

function placesIn(type: protobuf.Type, path: readonly string[], lists: readonly boolean[]): FieldPlace[] {
  return type.fieldsArray.flatMap((declared) => {
    const field = declared.resolve();
    const here = [...path, field.name];
    if (field.resolvedType instanceof protobuf.Type) {
      return placesIn(field.resolvedType, here, [...lists, field.repeated]);
    }
    const kind = kindOf(field);
    return kind === null ? [] : [{ kind, path: here, lists }];
  });
}

function kindOf(field: protobuf.Field): FieldKind | null {
  if (field instanceof protobuf.MapField) return 'map';
  if (field.resolvedType instanceof protobuf.Enum) return 'enum';
  if (field.type === 'string') return field.repeated ? 'strings' : 'string';
  if (field.type === 'bool') return null;
  return 'integer';
}

/** The request with another value in that place; what lies on the way is made where it is missing. */
export function withField(request: Message, place: FieldPlace, value: unknown): Message {
  const changed = structuredClone(request);
  let at = changed;
  place.path.slice(0, -1).forEach((name, index) => {
    const missing = name.startsWith('volume_capabilit') ? { access_mode: { mode: 1 } } : {};
    const found = (place.lists[index] ? at[name]?.[0] : at[name]) ?? missing;
    // The other members of a oneof give way.
    for (const member of ONEOFS.find((names) => names.includes(name)) ?? []) {
      if (member !== name) delete at[member];
    }
    at[name] = place.lists[index] ? [found] : found;
    at = found;
  });
  at[place.path.at(-1) as string] = value;
  return changed;
}

const ONEOFS = [
  ['block', 'mount'],
  ['snapshot', 'volume'],
];

let commented: protobuf.Root | undefined;

/** The fields of a request that the proto's comments call required, nested ones not. */
export function requiredFields(typeName: string): string[] {
  commented ??= rootWithComments();
  const type = commented.lookup(`${CSI_PACKAGE}.${typeName}`, protobuf.Type) as protobuf.Type | null;
  return (type?.fieldsArray ?? [])
    .filter((field) => /\bRequired\b/.test(field.comment ?? ''))
    .map((field) => field.name);
}

/** Not required by themselves, and without them a request is refused or means another thing. */
const ALSO: Readonly<Record<string, readonly string[]>> = {
  CreateVolume: ['capacity_range', 'volume_content_source'],
  DeleteVolumeGroupSnapshot: ['snapshot_ids'],
  GetVolumeGroupSnapshot: ['snapshot_ids'],
};

/** The request of an RPC with those of the values that it needs; empty for an RPC that the proto does not have. */
export function requestOf(rpc: string, values: Message): Message {
  const needed = [...requiredFields(`${rpc}Request`), ...(ALSO[rpc] ?? [])];
  return Object.fromEntries(needed.filter((name) => values[name] != null).map((name) => [name, values[name]]));
}

/** The definition of CSI with its comments, which the plugin does not load; or another text. */
export function rootWithComments(text = CSI_PROTO): protobuf.Root {
  const root = new protobuf.Root();
  root.loadSync(['descriptor', 'timestamp', 'wrappers'].map((name) => `google/protobuf/${name}.proto`));
  protobuf.parse(text, root, { keepCase: true, alternateCommentMode: true });
  root.resolveAll();
  return root;
}
