/**
 * Copies CSI messages for the log and strips what must not be logged: the fields with the csi_secret option of the proto, so
 * that a new secret field needs no change here, and the fields of a short list.
 *
 * Long strings, lists and maps are clipped, so that no caller writes megabytes into the log.
 *
 * The cost of a copy depends on the message and not on the proto, because this file determines only once which fields of a
 * type can lead to a secret.
 */
import protobuf from 'protobufjs';

export const STRIPPED = '***stripped***';

/**
 * Names of fields that can hold secrets although the proto does not mark them, in any message: mount flags
 * may contain passwords (CIFS style `password=...`), kubelet puts the tokens of a pod's service account
 * into the volume context (csi.storage.k8s.io/serviceAccount.tokens), and the publish context may carry
 * credentials for an attachment.
 */
const ALSO_SENSITIVE: ReadonlySet<string> = new Set([
  'mount_flags',
  'volume_context',
  'publish_context',
  // The names of these fields in CSI v0.3 and v0.1.
  'volume_attributes',
  'publish_info',
  'publish_volume_info',
]);

/** How to copy one message type. A field is hidden, copied whole, or copied by its own plan. */
interface Plan {
  holdsSecrets: boolean;
  readonly fields: Map<string, 'hide' | 'copy' | Plan>;
}

const plans = new Map<protobuf.Type, Plan>();

/**
 * A deep copy of a message in which the value of every secret field, including map keys, is
 * `***stripped***`, whether or not it was set. Messages that can hold secrets are copied field by
 * field; fields that the proto does not know are left out, since they may be secret.
 */
export function redact(type: protobuf.Type, message: object): object {
  const plan = planOf(type);
  return (plan.holdsSecrets ? copyByPlan(message, plan) : copyAll(message)) as object;
}

function planOf(type: protobuf.Type): Plan {
  const known = plans.get(type);
  if (known !== undefined) return known;
  // The plan is registered before its fields are known, so that the recursion of a type that contains itself ends here.
  // Until the fields are known, the plan counts as secret, which is safe.
  const plan: Plan = { holdsSecrets: true, fields: new Map() };
  plans.set(type, plan);
  for (const field of type.fieldsArray) plan.fields.set(field.name, treatmentOf(field));
  plan.holdsSecrets = [...plan.fields.values()].some((treatment) => treatment !== 'copy');
  return plan;
}

function treatmentOf(field: protobuf.Field): 'hide' | 'copy' | Plan {
  if (isSensitive(field)) return 'hide';
  const { resolvedType } = field.resolve();
  if (!(resolvedType instanceof protobuf.Type)) return 'copy';
  const plan = planOf(resolvedType);
  if (!plan.holdsSecrets) return 'copy';
  // The values of a map of messages would have to be copied one by one. CSI has no such map; hiding is safe.
  return field.map ? 'hide' : plan;
}

function isSensitive(field: protobuf.Field): boolean {
  return field.getOption('(csi_secret)') === true || ALSO_SENSITIVE.has(field.name);
}

function copyByPlan(value: unknown, plan: Plan): unknown {
  if (value === null || value === undefined) return value;
  if (Array.isArray(value)) return clipped(value, (element) => copyByPlan(element, plan));
  if (typeof value !== 'object') return STRIPPED;
  const copy: Record<string, unknown> = {};
  for (const [name, treatment] of plan.fields) {
    if (!Object.hasOwn(value, name)) continue;
    const member = (value as Record<string, unknown>)[name];
    if (treatment === 'hide') copy[name] = STRIPPED;
    else copy[name] = treatment === 'copy' ? copyAll(member) : copyByPlan(member, treatment);
  }
  return copy;
}

function copyAll(value: unknown): unknown {
  if (typeof value === 'string') return shortened(value);
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return clipped(value, copyAll);
  const entries = Object.entries(value).slice(0, MAX_ELEMENTS);
  // Object.fromEntries is used instead of assignment because a map's key may be `__proto__`.
  return Object.fromEntries(entries.map(([key, member]) => [shortened(key), copyAll(member)]));
}

/** A request has up to 4 MiB, and its line in the log is for people. */
const MAX_CHARACTERS = 256;
const MAX_ELEMENTS = 64;

function clipped(values: unknown[], copy: (value: unknown) => unknown): unknown[] {
  const first = values.slice(0, MAX_ELEMENTS).map(copy);
  return first.length === values.length ? first : [...first, `${values.length} elements`];
}

function shortened(text: string): string {
  if (text.length <= MAX_CHARACTERS) return text;
  return `${text.slice(0, MAX_CHARACTERS)}... (${text.length} characters)`;
}
