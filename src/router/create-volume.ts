/**
 * Which node makes a volume: that of its source; otherwise the first one that the topology prefers and
 * that has room; otherwise, among equals, the one with the most capacity.
 *
 * CreateVolume must find the volume that an earlier call of the same name has made, whose response may
 * have been lost. With one candidate, as an orchestrator gives that schedules the pod first, that is the
 * node's own business. With several, a full node was perhaps passed over, and has room now. So the router first asks
 * those behind the first whether they have the name. One that is away is passed over: it stops only the calls that it
 * comes first for, or for which all before it are full, and those are UNAVAILABLE. Equals are passed over by nobody,
 * because their order changes with their capacity: one that is away makes the call UNAVAILABLE. While the router asks,
 * another call with the same name is ABORTED.
 */

import { setTimeout as delay } from 'node:timers/promises';
import type { CallContext, RequestOf } from '../base/csi/service.js';
import { isMet, isWithin, nodeSegment, type TopologyRequirement } from '../base/csi/topology.js';
import { parseTopologyRequirement } from '../base/csi/topology-fields.js';
import { CsiError, StatusCode } from '../base/errors.js';
import type { NodeConnection } from './node-connection.js';

export interface CreateVolumeDependencies {
  readonly topologyKey: string;
  /** All nodes. */
  nodes(): readonly NodeConnection[];
  /** Passes the caller's request to a node. */
  ask(node: NodeConnection, context: CallContext): Promise<Buffer>;
  /** Whether a node has a volume of that name. */
  has(node: NodeConnection, name: string, context: CallContext): Promise<boolean>;
  /** How much a node could hold of such a volume, in bytes. */
  capacityOf(
    node: NodeConnection,
    request: RequestOf<'CreateVolume'>,
    context: CallContext,
  ): Promise<bigint>;
}

/** For nodes that another one comes before. */
const ANSWER_MS = 2000;

export class VolumePlacement {
  /** Names whose node is being chosen. */
  readonly #names = new Set<string>();

  constructor(private readonly deps: CreateVolumeDependencies) {}

  /** For a request without a source. */
  async create(request: RequestOf<'CreateVolume'>, context: CallContext): Promise<Buffer> {
    const field = 'accessibility_requirements';
    const requirement = parseTopologyRequirement(request.accessibility_requirements, field);
    const [first, ...others] = candidatesFor(requirement, this.deps.nodes(), this.deps.topologyKey);
    if (first === undefined) throw noCandidate(requirement);
    if (others.length === 0) return this.deps.ask(first.node, context);
    if (this.#names.has(request.name)) {
      throw CsiError.aborted(
        `volume '${request.name}' is being created by another call; try again when it has ended`,
      );
    }
    this.#names.add(request.name);
    try {
      return await this.#createOnOne([first, ...others], request, context);
    } finally {
      this.#names.delete(request.name);
    }
  }

  async #createOnOne(
    candidates: readonly Candidate[],
    request: RequestOf<'CreateVolume'>,
    context: CallContext,
  ): Promise<Buffer> {
    const ranks = byRank(candidates);
    const holder = await this.#holderSoon(ranks.slice(1).flat(), request.name, context);
    if (holder !== null) return this.deps.ask(holder, context);
    let refusal: unknown = null;
    for (const equals of ranks) {
      const owner = await this.#holderOf(equals, request.name, context);
      if (owner !== null) return this.deps.ask(owner, context);
      for (const node of await this.#inOrder(equals, request, context)) {
        try {
          return await this.deps.ask(node, context);
        } catch (thrown) {
          if (!isFull(thrown)) throw thrown;
          refusal = thrown;
        }
      }
    }
    throw refusal;
  }

  /** A node that says so within a while; null: none does. */
  async #holderSoon(
    nodes: readonly NodeConnection[],
    name: string,
    context: CallContext,
  ): Promise<NodeConnection | null> {
    const late = delay(ANSWER_MS, false, { ref: false });
    const answers = await Promise.all(
      nodes
        .filter(({ isConnected }) => isConnected)
        .map(async (node) => {
          const has = this.deps.has(node, name, context).catch(() => false);
          return (await Promise.race([has, late])) ? node : null;
        }),
    );
    return answers.find((node) => node !== null) ?? null;
  }

  /** The node that has a volume of this name; null: none has. Rejects if one of them does not say. */
  async #holderOf(
    nodes: readonly NodeConnection[],
    name: string,
    context: CallContext,
  ): Promise<NodeConnection | null> {
    const answers = await Promise.allSettled(
      nodes.map(async (node) => ((await this.deps.has(node, name, context)) ? node : null)),
    );
    const given = answers.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
    const holder = given.find((node) => node !== null);
    if (holder !== undefined) return holder;
    for (const each of answers) if (each.status === 'rejected') throw each.reason;
    return null;
  }

  /** Those with the most capacity first. */
  async #inOrder(
    nodes: readonly NodeConnection[],
    request: RequestOf<'CreateVolume'>,
    context: CallContext,
  ): Promise<readonly NodeConnection[]> {
    if (nodes.length === 1) return nodes;
    const measured = await Promise.all(
      nodes.map(async (node) => ({
        node,
        bytes: await this.deps.capacityOf(node, request, context),
      })),
    );
    measured.sort((a, b) => (a.bytes < b.bytes ? 1 : a.bytes > b.bytes ? -1 : 0));
    return measured.map(({ node }) => node);
  }
}

export interface Candidate<Node extends { id: string } = NodeConnection> {
  readonly node: Node;
  /** Lower ones come first; equal ones in the order of their capacity. */
  readonly rank: number;
}

/** Nodes of the same rank together, in the order of the ranks. */
function byRank(candidates: readonly Candidate[]): NodeConnection[][] {
  const ranks = new Map<number, NodeConnection[]>();
  for (const { node, rank } of candidates) ranks.set(rank, [...(ranks.get(rank) ?? []), node]);
  return [...ranks.values()];
}

/** The nodes that meet a requirement, those of the preferred topologies first and in their order. */
export function candidatesFor<Node extends { id: string }>(
  requirement: TopologyRequirement | null,
  nodes: readonly Node[],
  topologyKey: string,
): Candidate<Node>[] {
  const preferred = requirement?.preferred ?? [];
  return nodes
    .flatMap((node) => {
      const segment = nodeSegment({ topologyKey, nodeId: node.id });
      if (!isMet(requirement, segment)) return [];
      const rank = preferred.findIndex((topology) => isWithin(segment, topology));
      return [{ node, rank: rank < 0 ? preferred.length : rank }];
    })
    .sort((a, b) => a.rank - b.rank);
}

/** UNAVAILABLE, not RESOURCE_EXHAUSTED: a node that is not listed at the moment may have the volume already. */
function noCandidate(requirement: TopologyRequirement | null): CsiError {
  if (requirement === null) return CsiError.unavailable('the router knows no node: list one');
  const segments = requirement.requisite
    .flatMap((topology) => Object.entries(topology).map(([key, value]) => `${key}=${value}`))
    .slice(0, 5)
    .join(', ');
  return CsiError.unavailable(
    `no node that the router knows is in the requisite topologies (${segments}): list the node, or ` +
      'set the same BLOCKDELTA_TOPOLOGY_KEY for the router and the nodes',
  );
}

function isFull(thrown: unknown): boolean {
  return thrown instanceof CsiError && thrown.code === StatusCode.RESOURCE_EXHAUSTED;
}
