/**
 * Describes a loaded proto in the format of test/fixtures/csi-descriptor-*.json, by reflection alone, and holds two
 * such descriptions against each other.
 */
import assert from 'node:assert/strict';
import protobuf from 'protobufjs';

type Facts = Record<string, unknown>;

export interface Description {
  services: Record<string, { rpcs: Record<string, Facts>; alpha?: boolean }>;
  messages: Record<string, Facts>;
  enums: Record<string, Facts>;
}

/** Messages of google.protobuf keep their package. */
const PACKAGE_PREFIX = /^\.csi(?:\.v\d+)?\./;

export function describe(root: protobuf.Root, packageName = 'csi.v1'): Description {
  const description: Description = { services: {}, messages: {}, enums: {} };
  const names = root.lookup(packageName) as protobuf.Namespace;
  for (const member of names.nestedArray) describeMember(member, description);
  return description;
}

export function assertSame(actual: Description, expected: Description): void {
  for (const kind of ['services', 'messages', 'enums'] as const) {
    assert.deepEqual(Object.keys(actual[kind]).sort(), Object.keys(expected[kind]).sort());
    for (const [name, facts] of Object.entries(expected[kind])) {
      assert.deepEqual({ [name]: actual[kind][name] }, { [name]: facts });
    }
  }
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
  const rpcs = service.methodsArray.map((method) => {
    method.resolve();
    const facts = {
      request: relativeName(method.resolvedRequestType),
      response: relativeName(method.resolvedResponseType),
      clientStreaming: method.requestStream === true,
      serverStreaming: method.responseStream === true,
      ...mark('alpha', method.getOption('(alpha_method)')),
    };
    return [method.name, facts] as const;
  });
  return { rpcs: Object.fromEntries(rpcs), ...mark('alpha', service.getOption('(alpha_service)')) };
}

function describeMessage(type: protobuf.Type): Facts {
  return {
    fields: Object.fromEntries(type.fieldsArray.map((field) => [field.name, describeField(field)])),
    ...mark('alpha', type.getOption('(alpha_message)')),
    ...removal(type.comment),
  };
}

function describeField(field: protobuf.Field): Facts {
  field.resolve();
  const facts: Facts = { number: field.id, type: field.type };
  if (field instanceof protobuf.MapField) {
    Object.assign(facts, { type: 'map', key: field.keyType, value: field.type });
  } else if (field.resolvedType !== null) {
    const kind = field.resolvedType instanceof protobuf.Enum ? 'enum' : 'message';
    Object.assign(facts, { type: relativeName(field.resolvedType), kind });
  }
  if (field.repeated) facts['label'] = 'repeated';
  if (field.partOf) facts['oneof'] = field.partOf.name;
  return {
    ...facts,
    ...mark('secret', field.getOption('(csi_secret)')),
    ...mark('alpha', field.getOption('(alpha_field)')),
    ...removal(field.comment),
  };
}

function describeEnum({ values, valuesOptions, comments }: protobuf.Enum): Facts {
  const facts: Facts = { values: { ...values } };
  const names = Object.keys(values);
  const alpha = names.filter((name) => valuesOptions?.[name]?.['(alpha_enum_value)'] === true);
  const removed = names.flatMap((name) => {
    const { removedIn } = removal(comments[name] ?? null);
    return removedIn === undefined ? [] : [[name, removedIn]];
  });
  if (alpha.length > 0) facts['alphaValues'] = alpha;
  if (removed.length > 0) facts['removedIn'] = Object.fromEntries(removed);
  return facts;
}

function mark(key: string, option: unknown): Facts {
  return option === true ? { [key]: true } : {};
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
