/** Parses topology messages and rejects those that break CSI's rules. topology.ts defines their meaning. */
import { CsiError } from '../errors.js';
import { parseMap } from './fields.js';
import type { StringMap } from './string-map.js';
import { isTopologyValue, MAX_TOPOLOGY_CHARACTERS, TOPOLOGY_NAME, type TopologyRequirement } from './topology.js';

const PREFIX = /^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$/;

interface TopologyMessage {
  readonly segments: StringMap;
}

interface RequirementMessage {
  readonly requisite?: readonly TopologyMessage[];
  readonly preferred?: readonly TopologyMessage[];
}

/** Null when the message is missing. */
export function parseTopology(message: TopologyMessage | null | undefined, field: string): StringMap | null {
  return message === null || message === undefined ? null : parsePlace(message, field);
}

function parsePlace(message: TopologyMessage, field: string): StringMap {
  const place = parseMap(message.segments, `${field}.segments`);
  const keys = new Set<string>();
  for (const [key, value] of Object.entries(place)) {
    if (!isTopologyKey(key)) {
      throw CsiError.invalidArgument(`${field}.segments has a key that is not a topology key`);
    }
    if (!isTopologyValue(value)) {
      throw CsiError.invalidArgument(`${field}.segments['${key}'] is not a topology value`);
    }
    if (keys.has(key.toLowerCase())) {
      throw CsiError.invalidArgument(`${field}.segments has the key '${key}' twice`);
    }
    keys.add(key.toLowerCase());
  }
  return place;
}

/** Null when the message is missing. Rejects a message without topologies, or with a preferred topology not in requisite. */
export function parseTopologyRequirement(
  message: RequirementMessage | null | undefined,
  field: string,
): TopologyRequirement | null {
  if (message === null || message === undefined) return null;
  const requisite = parsePlaces(message.requisite, `${field}.requisite`);
  const preferred = parsePlaces(message.preferred, `${field}.preferred`);
  if (requisite.length === 0 && preferred.length === 0) {
    throw CsiError.invalidArgument(`${field} names neither requisite nor preferred topologies`);
  }
  const allowed = new Set(requisite.map(canonical));
  const stray = preferred.findIndex((place) => !allowed.has(canonical(place)));
  if (requisite.length > 0 && stray >= 0) {
    throw CsiError.invalidArgument(`${field}.preferred[${stray}] is not one of the requisite ones`);
  }
  return { requisite, preferred };
}

function parsePlaces(places: readonly TopologyMessage[] = [], field: string): StringMap[] {
  return places.map((place, index) => parsePlace(place, `${field}[${index}]`));
}

function canonical(place: StringMap): string {
  const entries = Object.entries(place).map(([key, value]) => [key.toLowerCase(), value]);
  return JSON.stringify(entries.sort(([a = ''], [b = '']) => (a < b ? -1 : 1)));
}

function isTopologyKey(key: string): boolean {
  const slash = key.indexOf('/');
  const prefix = slash < 0 ? 'none' : key.slice(0, slash);
  const name = key.slice(slash + 1);
  const isShort = prefix.length <= MAX_TOPOLOGY_CHARACTERS && name.length <= MAX_TOPOLOGY_CHARACTERS;
  return isShort && PREFIX.test(prefix) && TOPOLOGY_NAME.test(name);
}
