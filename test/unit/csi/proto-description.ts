/**
 * Describes a loaded proto in the format of test/fixtures/csi-descriptor-*.json, and lists in
 * words how two such descriptions differ. Looks only at reflection, so it can also be given a proto
 * that was spoilt on purpose.
 */
import protobuf from 'protobufjs';

interface FieldFacts {
  number: number;
  type: string;
  key?: string;
  value?: string;
  kind?: string;
  label?: string;
  oneof?: string;
  secret?: boolean;
  alpha?: boolean;
  removedIn?: string;
}

interface RpcFacts {
  request: string;
  response: string;
  clientStreaming: boolean;
  serverStreaming: boolean;
  alpha?: boolean;
}

export interface Description {
  services: Record<string, { rpcs: Record<string, RpcFacts>; alpha?: boolean }>;
  messages: Record<
    string,
    { fields: Record<string, FieldFacts>; alpha?: boolean; removedIn?: string }
  >;
  enums: Record<
    string,
    {
      values: Record<string, number>;
      alphaValues?: string[];
      removedIn?: Record<string, string>;
    }
  >;
}

/** Messages of google.protobuf keep their package. */
const PACKAGE_PREFIX = /^\.csi(?:\.v\d+)?\./;

export function describe(root: protobuf.Root, packageName = 'csi.v1'): Description {
  const description: Description = { services: {}, messages: {}, enums: {} };
  const names = root.lookup(packageName) as protobuf.Namespace;
  for (const member of names.nestedArray) describeMember(member, description);
  return description;
}

/** One line for each difference in either direction; empty when the two agree. */
export function differences(expected: Description, actual: Description): string[] {
  const lines: string[] = [];
  for (const kind of ['services', 'messages', 'enums'] as const) {
    compare(expected[kind], actual[kind], kind, lines);
  }
  return lines;
}

function compare(expected: unknown, actual: unknown, path: string, lines: string[]): void {
  if (isObject(expected) && isObject(actual)) {
    for (const key of new Set([...Object.keys(expected), ...Object.keys(actual)])) {
      compare(expected[key], actual[key], `${path}/${key}`, lines);
    }
    return;
  }
  const [left, right] = [JSON.stringify(expected), JSON.stringify(actual)];
  if (left === right) return;
  if (expected === undefined) lines.push(`${path}: not in the descriptor, the proto has ${right}`);
  else if (actual === undefined) lines.push(`${path}: missing in the proto, must be ${left}`);
  else lines.push(`${path}: must be ${left}, the proto has ${right}`);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function describeMember(member: protobuf.ReflectionObject, into: Description): void {
  const name = relativeName(member);
  if (member instanceof protobuf.Service) {
    into.services[name] = describeService(member);
  } else if (member instanceof protobuf.Enum) {
    into.enums[name] = describeEnum(member);
  } else if (member instanceof protobuf.Type) {
    into.messages[name] = describeMessage(member);
    for (const nested of member.nestedArray) describeMember(nested, into);
  } else if (!(member instanceof protobuf.Field)) {
    throw new Error(`${name} is neither service, message, enum nor extension`);
  }
}

function describeService(service: protobuf.Service): Description['services'][string] {
  const rpcs: Record<string, RpcFacts> = {};
  for (const method of service.methodsArray) {
    method.resolve();
    rpcs[method.name] = {
      request: relativeName(method.resolvedRequestType),
      response: relativeName(method.resolvedResponseType),
      clientStreaming: method.requestStream === true,
      serverStreaming: method.responseStream === true,
      ...mark('alpha', method.getOption('(alpha_method)')),
    };
  }
  return { rpcs, ...mark('alpha', service.getOption('(alpha_service)')) };
}

function describeMessage(type: protobuf.Type): Description['messages'][string] {
  const fields: Record<string, FieldFacts> = {};
  for (const field of type.fieldsArray) fields[field.name] = describeField(field);
  return {
    fields,
    ...mark('alpha', type.getOption('(alpha_message)')),
    ...removal(type.comment),
  };
}

function describeField(field: protobuf.Field): FieldFacts {
  field.resolve();
  const facts: FieldFacts = { number: field.id, type: field.type };
  if (field instanceof protobuf.MapField) {
    Object.assign(facts, { type: 'map', key: field.keyType, value: field.type });
  } else if (field.resolvedType !== null) {
    facts.type = relativeName(field.resolvedType);
    facts.kind = field.resolvedType instanceof protobuf.Enum ? 'enum' : 'message';
  }
  if (field.repeated) facts.label = 'repeated';
  if (field.partOf) facts.oneof = field.partOf.name;
  return {
    ...facts,
    ...mark('secret', field.getOption('(csi_secret)')),
    ...mark('alpha', field.getOption('(alpha_field)')),
    ...removal(field.comment),
  };
}

function describeEnum(enumeration: protobuf.Enum): Description['enums'][string] {
  const facts: Description['enums'][string] = { values: { ...enumeration.values } };
  const alpha: string[] = [];
  const removed: Record<string, string> = {};
  for (const name of Object.keys(enumeration.values)) {
    if (enumeration.valuesOptions?.[name]?.['(alpha_enum_value)'] === true) alpha.push(name);
    const { removedIn } = removal(enumeration.comments[name] ?? null);
    if (removedIn !== undefined) removed[name] = removedIn;
  }
  if (alpha.length > 0) facts.alphaValues = alpha;
  if (Object.keys(removed).length > 0) facts.removedIn = removed;
  return facts;
}

function mark<K extends string>(key: K, option: unknown): { [P in K]?: true } {
  return (option === true ? { [key]: true } : {}) as { [P in K]?: true };
}

function removal(comment: string | null): { removedIn?: string } {
  const version = /\bRemoved in (\d+\.\d+)\b/.exec(comment ?? '')?.[1];
  return version === undefined ? {} : { removedIn: `${version}.0` };
}

function relativeName(object: protobuf.ReflectionObject | null): string {
  if (object === null) throw new Error('a type did not resolve');
  const { fullName } = object;
  return fullName.replace(PACKAGE_PREFIX, '').replace(/^\./, '');
}
