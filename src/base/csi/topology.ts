/**
 * Topology: from where a volume is accessible. Node-local storage has one segment, its node.
 *
 * A topology of a request is a set of segments. A node belongs to the topology if it has all segments; an empty topology
 * includes every node. Keys are compared without case, as CSI requires. Knows no requests: topology-fields.ts parses them.
 */
import { nodeKey } from './handles.js';
import type { StringMap } from './string-map.js';

export interface TopologyConfig {
  readonly topologyKey: string;
  readonly nodeId: string;
}

export interface TopologyRequirement {
  readonly requisite: readonly StringMap[];
  readonly preferred: readonly StringMap[];
}

/** CSI's limit in characters for each part of a key, and for a value. */
export const MAX_TOPOLOGY_CHARACTERS = 63;
export const TOPOLOGY_NAME = /^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$/;

/** This node's segment: its id if that is a valid value, otherwise its node key. */
export function nodeSegment({ topologyKey, nodeId }: TopologyConfig): Record<string, string> {
  return { [topologyKey]: isTopologyValue(nodeId) ? nodeId : nodeKey(nodeId) };
}

/** Whether the node with this segment belongs to a topology. */
export function isWithin(segment: StringMap, topology: StringMap): boolean {
  const own = new Map(Object.entries(segment).map(([key, value]) => [key.toLowerCase(), value]));
  return Object.entries(topology).every(([key, value]) => own.get(key.toLowerCase()) === value);
}

/**
 * Whether storage on the node with this segment meets the requirement. Preferred topologies alone allow
 * every node.
 */
export function isMet(requirement: TopologyRequirement | null, segment: StringMap): boolean {
  if (requirement === null || requirement.requisite.length === 0) return true;
  return requirement.requisite.some((topology) => isWithin(segment, topology));
}

/** For use inside a message. */
export function describeSegment(segment: StringMap): string {
  return Object.entries(segment)
    .map(([key, value]) => `${key}=${value}`)
    .join(', ');
}

export function isTopologyValue(value: string): boolean {
  return value.length <= MAX_TOPOLOGY_CHARACTERS && TOPOLOGY_NAME.test(value);
}
