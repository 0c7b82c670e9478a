/** GetCapacity over several nodes: the nodes of a topology, and the sum of their answers. Pure. */

import { encodeMessage } from '../base/csi/proto.js';
import type { RequestOf } from '../base/csi/service.js';
import { isWithin, nodeSegment } from '../base/csi/topology.js';
import { parseTopology } from '../base/csi/topology-fields.js';
import { decode } from './messages.js';

/** The nodes in the topology of the request; all nodes if the request has no topology. */
export function nodesWithin<Node extends { id: string }>(
  request: RequestOf<'GetCapacity'>,
  nodes: readonly Node[],
  topologyKey: string,
): Node[] {
  const place = parseTopology(request.accessible_topology, 'accessible_topology');
  if (place === null) return [...nodes];
  return nodes.filter(({ id }) => isWithin(nodeSegment({ topologyKey, nodeId: id }), place));
}

/** Asks a node how many bytes it has available for a volume like the requested one. */
export function capacityRequest(request: RequestOf<'CreateVolume'>): Buffer {
  const { volume_capabilities, parameters } = request;
  return encodeMessage('GetCapacityRequest', { volume_capabilities, parameters });
}

interface Capacity {
  readonly available_capacity: string;
  readonly maximum_volume_size: { readonly value: string } | null;
  readonly minimum_volume_size: { readonly value: string } | null;
}

/** Adds up the available bytes. A single volume lies on one node, so the widest range of volume sizes counts. */
export function totalCapacity(answers: readonly Buffer[]): Buffer {
  const [only, ...others] = answers;
  if (only !== undefined && others.length === 0) return only;
  const found = answers.map((answer) => decode<Capacity>('GetCapacityResponse', answer));
  const available = found.reduce((sum, each) => sum + BigInt(each.available_capacity), 0n);
  const largest = sizes(found, 'maximum_volume_size').reduce(max, null);
  const smallest = sizes(found, 'minimum_volume_size').reduce(min, null);
  return encodeMessage('GetCapacityResponse', {
    available_capacity: String(available),
    ...(largest === null ? {} : { maximum_volume_size: { value: String(largest) } }),
    ...(smallest === null ? {} : { minimum_volume_size: { value: String(smallest) } }),
  });
}

function sizes(found: readonly Capacity[], field: 'maximum_volume_size' | 'minimum_volume_size'): bigint[] {
  return found.flatMap((each) => (each[field] === null ? [] : [BigInt(each[field].value)]));
}

const max = (a: bigint | null, b: bigint): bigint => (a === null || b > a ? b : a);
const min = (a: bigint | null, b: bigint): bigint => (a === null || b < a ? b : a);
