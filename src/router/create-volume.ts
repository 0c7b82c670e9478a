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
 *
 * When the router has tried in vain for two minutes to reach the one that comes first, the call is RESOURCE_EXHAUSTED, on
 * which an orchestrator gives the pod another node. If the volume had been made nevertheless there are two, which are
 * reported when that node is back, or answers late. None is deleted: only the orchestrator knows which one it uses.
 */

import type { Logger } from 'pino';
import { nodeKey } from '../base/csi/handles.js';
import type { CallContext, RequestOf } from '../base/csi/service.js';
import { isMet, isWithin, nodeSegment, type TopologyRequirement } from '../base/csi/topology.js';
import { parseTopologyRequirement } from '../base/csi/topology-fields.js';
import { CsiError, StatusCode } from '../base/errors.js';
import type { NodeConnection } from './node-connection.js';
import type { Clock } from './node-list.js';

export interface CreateVolumeDependencies {
  readonly topologyKey: string;
  nodes(): readonly NodeConnection[];
  /** Whether complete lists have not had the node with this key for an hour. */
  isRetired(key: string): boolean;
  ask(node: NodeConnection, context: CallContext): Promise<Buffer>;
  /** The handle of a node's volume of that name; empty: it has none. */
  find(node: NodeConnection, name: string, context?: CallContext): Promise<string>;
  /** How long nodes that another one comes before may take to answer. */
  patience(): Promise<void>;
  readonly now: Clock;
  readonly logger: Logger;
  duplicateFound(): void;
  /** How much a node could hold of such a volume, in bytes. */
  capacityOf(
    node: NodeConnection,
    request: RequestOf<'CreateVolume'>,
    context: CallContext,
  ): Promise<bigint>;
}

/** Of trying in vain to reach a node, after which its volumes are made elsewhere. */
const GIVEN_UP_MS = 120_000;
/** That are looked up on all nodes once more. */
const MAX_NAMES = 1000;

export class VolumePlacement {
  /** Names whose node is being chosen. */
  readonly #names = new Set<string>();
  /** Names of volumes that were made while a node could not be asked. The oldest is given up first. */
  readonly #unsure = new Set<string>();

  constructor(private readonly deps: CreateVolumeDependencies) {}

  /** For a request without a source. */
  async create(request: RequestOf<'CreateVolume'>, context: CallContext): Promise<Buffer> {
    const field = 'accessibility_requirements';
    const requirement = parseTopologyRequirement(request.accessibility_requirements, field);
    const [first, ...others] = candidatesFor(requirement, this.deps.nodes(), this.deps.topologyKey);
    if (first === undefined) throw this.#noCandidate(requirement);
    this.#noteUnasked(request.name);
    if (others.length === 0) {
      return this.#unlessLost(first.node, () => this.deps.ask(first.node, context));
    }
    if (this.#names.has(request.name)) {
      throw CsiError.aborted(
        `volume '${request.name}' is being created by another call; try again when it has ended`,
      );
    }
    this.#names.add(request.name);
    try {
      const create = () => this.#createOnOne([first, ...others], request, context);
      return await this.#unlessLost(first.node, create);
    } finally {
      this.#names.delete(request.name);
    }
  }

  /**
   * UNAVAILABLE, as a node that is not listed at the moment may have the volume already; RESOURCE_EXHAUSTED, on which
   * an orchestrator tries another node, if all of them are retired.
   */
  #noCandidate(requirement: TopologyRequirement | null): CsiError {
    if (requirement === null) return CsiError.unavailable('the router knows no node: list one');
    const segments = requirement.requisite.flatMap((topology) => Object.entries(topology));
    const named = segments.map(([key, value]) => `${key}=${value}`);
    const message =
      `no node that the router knows is in the requisite topologies (${named.slice(0, 5).join(', ')}): ` +
      'list the node, or set the same BLOCKDELTA_TOPOLOGY_KEY for the router and the nodes';
    const keys = segments.flatMap(([, value]) => [value, nodeKey(value)]);
    const areRetired = keys.length > 0 && keys.every((key) => this.deps.isRetired(key));
    return areRetired ? CsiError.resourceExhausted(message) : CsiError.unavailable(message);
  }

  async #createOnOne(
    candidates: readonly Candidate[],
    request: RequestOf<'CreateVolume'>,
    context: CallContext,
  ): Promise<Buffer> {
    const ranks = byRank(candidates);
    const holder = await this.#holderSoon(ranks.slice(1).flat(), request.name);
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

  /** What is UNAVAILABLE while the first node has not been reached for long is RESOURCE_EXHAUSTED. */
  async #unlessLost(first: NodeConnection, create: () => Promise<Buffer>): Promise<Buffer> {
    try {
      return await create();
    } catch (thrown) {
      const { code, message } = CsiError.from(thrown);
      const lostMs = this.deps.now() - (first.unreachableSince ?? Infinity);
      if (code !== StatusCode.UNAVAILABLE || lostMs < GIVEN_UP_MS) throw thrown;
      throw CsiError.resourceExhausted(
        `${message}. It has been so for ${GIVEN_UP_MS / 60_000} minutes or longer: make the volume on another node`,
      );
    }
  }

  /** A node that says so within a while; null: none does. */
  async #holderSoon(
    nodes: readonly NodeConnection[],
    name: string,
  ): Promise<NodeConnection | null> {
    const late = this.deps.patience().then(() => null);
    const ask = async (node: NodeConnection): Promise<NodeConnection | null> => {
      const handle = await this.deps.find(node, name).catch(() => '');
      if (handle === '') return null;
      // Another one may have been asked to make it meanwhile.
      this.#unsure.add(name);
      void this.lookAgain();
      return node;
    };
    const asked = nodes.filter(({ isConnected }) => isConnected);
    const answers = await Promise.all(asked.map((node) => Promise.race([ask(node), late])));
    return answers.find((node) => node !== null) ?? null;
  }

  #noteUnasked(name: string): void {
    if (this.deps.nodes().every(({ isConnected }) => isConnected)) void this.lookAgain();
    else this.#unsure.add(name);
    const [oldest] = this.#unsure;
    if (this.#unsure.size > MAX_NAMES && oldest !== undefined) this.#unsure.delete(oldest);
  }

  /** When a node is back, or has answered late. Never rejects. */
  async lookAgain(): Promise<void> {
    for (let isMissed = true; isMissed; ) {
      isMissed = false;
      const names = [...this.#unsure];
      this.#unsure.clear();
      for (const name of names) isMissed = (await this.#look(name)) || isMissed;
      if (isMissed) await this.deps.patience();
    }
  }

  /** Reports what several nodes have. Resolves to whether one that can be reached has not answered. Never rejects. */
  async #look(name: string): Promise<boolean> {
    const nodes = this.deps.nodes();
    const asked = nodes.map((node) => this.deps.find(node, name).catch(() => null));
    const answers = await Promise.all(asked);
    const missed = nodes.filter((_, index) => answers[index] === null);
    if (missed.length > 0) this.#unsure.add(name);
    const all = nodes.map(({ id }, index) => ({ node: id, volume: answers[index] }));
    const volumes = all.filter(({ volume }) => volume);
    if (volumes.length > 1) this.#report(name, volumes);
    return missed.some(({ isConnected }) => isConnected);
  }

  #report(name: string, volumes: readonly object[]): void {
    this.deps.duplicateFound();
    this.deps.logger.warn(
      { name, volumes },
      'several nodes have a volume of this name: look up which one is used, and delete the others',
    );
  }

  /** The node that has a volume of this name; null: none has. Rejects if one of them does not say. */
  async #holderOf(
    nodes: readonly NodeConnection[],
    name: string,
    context: CallContext,
  ): Promise<NodeConnection | null> {
    const answers = await Promise.allSettled(
      nodes.map(async (node) => ((await this.deps.find(node, name, context)) ? node : null)),
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

function isFull(thrown: unknown): boolean {
  return thrown instanceof CsiError && thrown.code === StatusCode.RESOURCE_EXHAUSTED;
}
