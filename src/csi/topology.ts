/**
 * Topology: from where a volume can be reached. Storage of a node has one segment, its node.
 *
 * A place of a request is a set of segments, and this node is in it if it has all of them; a place
 * without segments is everywhere. A segment that this node does not know is none of its own. Keys
 * are compared without case, as CSI wants it.
 */
import { CsiError } from '../base/errors.js';
import { nodeKey } from '../domain/node-key.js';
import { parseMap, type StringMap } from './fields.js';
import type { RequestMessage } from './service.js';

export interface TopologyConfig {
  readonly topologyKey: string;
  readonly nodeId: string;
}

export interface TopologyRequirement {
  readonly requisite: readonly StringMap[];
  readonly preferred: readonly StringMap[];
}

/** CSI's limit for each part of a key and for a value, in characters. */
const MAX_CHARACTERS = 63;
const NAME = /^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$/;
const PREFIX = /^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$/;

/** This node. Its id where that is a legal value, and else its short name. */
export function nodeSegment({ topologyKey, nodeId }: TopologyConfig): Record<string, string> {
  return { [topologyKey]: isTopologyValue(nodeId) ? nodeId : nodeKey(nodeId) };
}

/** Whether the node with this segment is in a place. */
export function isWithin(segment: StringMap, place: StringMap): boolean {
  const own = new Map(Object.entries(segment).map(([key, value]) => [key.toLowerCase(), value]));
  return Object.entries(place).every(([key, value]) => own.get(key.toLowerCase()) === value);
}

/**
 * Whether what is provided on that node is what the requirement asks for. Where places are only
 * preferred, any other will do as well.
 */
export function isMet(requirement: TopologyRequirement | null, segment: StringMap): boolean {
  if (requirement === null || requirement.requisite.length === 0) return true;
  return requirement.requisite.some((place) => isWithin(segment, place));
}

/** Null when the message is missing. */
export function parseTopology(value: unknown, field: string): StringMap | null {
  if (value === null || value === undefined) return null;
  const place = parseMap((value as RequestMessage)['segments'], `${field}.segments`);
  const keys = new Set<string>();
  for (const [key, held] of Object.entries(place)) {
    if (!isTopologyKey(key)) {
      throw CsiError.invalidArgument(`${field}.segments has a key that is no topology key`);
    }
    if (!isTopologyValue(held)) {
      throw CsiError.invalidArgument(`${field}.segments['${key}'] is no topology value`);
    }
    if (keys.has(key.toLowerCase())) {
      throw CsiError.invalidArgument(`${field}.segments has the key '${key}' twice`);
    }
    keys.add(key.toLowerCase());
  }
  return place;
}

/** Null when the message is missing. One that names no place, or prefers one it rules out, is refused. */
export function parseTopologyRequirement(
  value: unknown,
  field: string,
): TopologyRequirement | null {
  if (value === null || value === undefined) return null;
  const message = value as RequestMessage;
  const requisite = parsePlaces(message['requisite'], `${field}.requisite`);
  const preferred = parsePlaces(message['preferred'], `${field}.preferred`);
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

/** For people, in the middle of a sentence. */
export function describeSegment(segment: StringMap): string {
  return Object.entries(segment)
    .map(([key, value]) => `${key}=${value}`)
    .join(', ');
}

function parsePlaces(value: unknown, field: string): StringMap[] {
  const list = (value ?? []) as readonly unknown[];
  return list.map((place, index) => parseTopology(place, `${field}[${index}]`) ?? {});
}

function canonical(place: StringMap): string {
  const entries = Object.entries(place).map(([key, value]) => [key.toLowerCase(), value]);
  return JSON.stringify(entries.sort(([a = ''], [b = '']) => (a < b ? -1 : 1)));
}

function isTopologyKey(key: string): boolean {
  const slash = key.indexOf('/');
  const prefix = slash < 0 ? 'none' : key.slice(0, slash);
  const name = key.slice(slash + 1);
  const isShort = prefix.length <= MAX_CHARACTERS && name.length <= MAX_CHARACTERS;
  return isShort && PREFIX.test(prefix) && NAME.test(name);
}

function isTopologyValue(value: string): boolean {
  return value.length <= MAX_CHARACTERS && NAME.test(value);
}
