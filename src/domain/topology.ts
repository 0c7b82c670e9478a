/**
 * Topology: from where a volume can be reached. Storage of a node has one segment, its node.
 *
 * A place of a request is a set of segments, and this node is in it if it has all of them; a place
 * without segments is everywhere. This node has no segment that it does not know. Keys are compared
 * without case, as CSI wants it. Knows no requests: csi/topology.ts parses them.
 */
import { nodeKey } from './identifiers.js';
import type { StringMap } from './string-map.js';

export interface TopologyConfig {
  readonly topologyKey: string;
  readonly nodeId: string;
}

export interface TopologyRequirement {
  readonly requisite: readonly StringMap[];
  readonly preferred: readonly StringMap[];
}

/** CSI's limit for each part of a key and for a value, in characters. */
export const MAX_TOPOLOGY_CHARACTERS = 63;
export const TOPOLOGY_NAME = /^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$/;

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

/** For people, in the middle of a sentence. */
export function describeSegment(segment: StringMap): string {
  return Object.entries(segment)
    .map(([key, value]) => `${key}=${value}`)
    .join(', ');
}

export function isTopologyValue(value: string): boolean {
  return value.length <= MAX_TOPOLOGY_CHARACTERS && TOPOLOGY_NAME.test(value);
}
