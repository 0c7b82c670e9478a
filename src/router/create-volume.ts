/**
 * Which node makes a volume: that of its source; otherwise the first one that the topology prefers and
 * that has room; otherwise, among equals, the one with the most capacity.
 *
 * CreateVolume must find the volume that an earlier call of the same name has made, whose response may
 * have been lost. With one candidate, as an orchestrator gives that schedules the pod first, that is the
 * node's own business. With several, the choice cannot be repeated: capacity changes, and a full node is
 * passed over. So the router first asks all candidates whether they have the name, and one that cannot be
 * reached makes the call UNAVAILABLE: it might have the volume, and a second one would be lost for ever.
 * While it asks, another call with the same name is ABORTED.
 *
 * The question is the request itself with a topology that no node has: a node then answers ALREADY_EXISTS
 * if it has the name, and creates nothing in any case.
 */

import type { CallContext, RequestOf } from '../base/csi/service.js';
import { isMet, isWithin, nodeSegment, type TopologyRequirement } from '../base/csi/topology.js';
import { parseTopologyRequirement } from '../base/csi/topology-fields.js';
import { CsiError, StatusCode } from '../base/errors.js';
import { encode, withField } from './messages.js';
import type { NodeConnection } from './node-connection.js';

/** Number of accessibility_requirements in CreateVolumeRequest; a test compares it with the proto. */
export const REQUIREMENTS_FIELD = 7;
/** A segment that no node has: nodes have one, under the topology key. */
const NOWHERE = encode('TopologyRequirement', {
  requisite: [{ segments: { 'blockdelta.router/question': 'exists' } }],
});

export interface CreateVolumeDependencies {
  readonly topologyKey: string;
  /** All nodes. */
  nodes(): readonly NodeConnection[];
  /** Passes a request, by default the caller's own, to a node. */
  ask(node: NodeConnection, context: CallContext, request?: Buffer): Promise<Buffer>;
  /** How much a node could hold of such a volume, in bytes. */
  capacityOf(
    node: NodeConnection,
    request: RequestOf<'CreateVolume'>,
    context: CallContext,
  ): Promise<bigint>;
}

export class VolumePlacement {
  readonly #deps: CreateVolumeDependencies;
  /** Names whose node is being chosen. */
  readonly #names = new Set<string>();

  constructor(deps: CreateVolumeDependencies) {
    this.#deps = deps;
  }

  /** For a request without a source. */
  async create(request: RequestOf<'CreateVolume'>, context: CallContext): Promise<Buffer> {
    const field = 'accessibility_requirements';
    const requirement = parseTopologyRequirement(request.accessibility_requirements, field);
    const [first, ...others] = candidatesFor(
      requirement,
      this.#deps.nodes(),
      this.#deps.topologyKey,
    );
    if (first === undefined) throw noCandidate(requirement);
    if (others.length === 0) return this.#deps.ask(first.node, context);
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
    const holder = await this.#holderOf(candidates, context);
    if (holder !== null) return this.#deps.ask(holder, context);
    let refusal: unknown = null;
    for (const node of await this.#inOrder(candidates, request, context)) {
      try {
        return await this.#deps.ask(node, context);
      } catch (thrown) {
        if (!isFull(thrown)) throw thrown;
        refusal = thrown;
      }
    }
    throw refusal;
  }

  /** The node that has a volume of this name. */
  async #holderOf(
    candidates: readonly Candidate[],
    context: CallContext,
  ): Promise<NodeConnection | null> {
    const question = withField(context.encodedRequest, REQUIREMENTS_FIELD, NOWHERE);
    const answers = await Promise.all(
      candidates.map(async ({ node }) => {
        try {
          await this.#deps.ask(node, context, question);
          return null;
        } catch (thrown) {
          return { node, error: CsiError.from(thrown) };
        }
      }),
    );
    const holder = answers.find((answer) => answer?.error.code === StatusCode.ALREADY_EXISTS);
    if (holder) return holder.node;
    for (const answer of answers) if (answer && !isAnswer(answer.error)) throw answer.error;
    return null;
  }

  async #inOrder(
    candidates: readonly Candidate[],
    request: RequestOf<'CreateVolume'>,
    context: CallContext,
  ): Promise<NodeConnection[]> {
    const measured = await Promise.all(
      candidates.map(async ({ node, rank }) => ({
        node,
        rank,
        bytes: await this.#deps.capacityOf(node, request, context),
      })),
    );
    measured.sort(
      (a, b) => a.rank - b.rank || (a.bytes < b.bytes ? 1 : a.bytes > b.bytes ? -1 : 0),
    );
    return measured.map(({ node }) => node);
  }
}

export interface Candidate<Node extends { id: string } = NodeConnection> {
  readonly node: Node;
  /** Lower ones come first; equal ones in the order of their capacity. */
  readonly rank: number;
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

/** Whether the status is about the volume, so that the node was asked and does not have it. */
function isAnswer({ code }: CsiError): boolean {
  const notAnswers: readonly StatusCode[] = [
    StatusCode.UNAVAILABLE,
    StatusCode.ABORTED,
    StatusCode.CANCELLED,
    StatusCode.DEADLINE_EXCEEDED,
    StatusCode.UNKNOWN,
    StatusCode.INTERNAL,
  ];
  return !notAnswers.includes(code);
}

function isFull(thrown: unknown): boolean {
  return thrown instanceof CsiError && thrown.code === StatusCode.RESOURCE_EXHAUSTED;
}
