/**
 * Chooses the node that makes a volume. A volume from a source is made on the node of the source, unless its class lets other
 * nodes pull the snapshot. All other volumes are made on the first node that the topology prefers and that has
 * room; among nodes of equal rank, on the node with the most capacity. If the topology prefers none, a node that has the
 * snapshot comes first, and then one with a replica.
 *
 * CreateVolume must find a volume that an earlier call with the same name has made, because the response of that call may have
 * been lost. With one candidate, which an orchestrator names if it schedules the pod first, the node itself finds the volume.
 * With several candidates, the earlier call may have passed over a full node that has room now. So the router first asks the
 * nodes after the first rank whether they have a volume with the name, and skips those that are away. A node that is away makes
 * a call UNAVAILABLE only if it comes first, or if all nodes before it are full. But the router never skips a node of equal
 * rank, because the order of such nodes changes with their capacity: if one of them is away and the others do not have the
 * volume, the call is UNAVAILABLE. While the router asks, another call with the same name is ABORTED.
 *
 * If the router has failed for two minutes to reach the node that comes first, the call is RESOURCE_EXHAUSTED, which makes an
 * orchestrator give the pod another node. If the first node made the volume after all, there are two volumes. The router
 * reports both when that node is back or answers late, and deletes neither: only the orchestrator knows which one it uses.
 */

import type { Logger } from 'pino';
import { nodeKey, nodeKeyOf } from '../base/csi/handles.js';
import type { CallContext, RequestOf } from '../base/csi/service.js';
import { isMet, isWithin, nodeSegment, type TopologyRequirement } from '../base/csi/topology.js';
import { parseTopologyRequirement } from '../base/csi/topology-fields.js';
import { CsiError, StatusCode } from '../base/errors.js';
import type { NodeConnection } from './node-connection.js';
import type { Clock } from './node-list.js';
import type { RemoteSources } from './remote-sources.js';

export interface CreateVolumeDependencies {
  readonly topologyKey: string;
  nodes(): readonly NodeConnection[];
  /** Whether the node with this key is retired, or complete lists of nodes have lacked it for an hour. */
  isGone(key: string): boolean;
  ask(node: NodeConnection, context: CallContext): Promise<Buffer>;
  /** Brings snapshots to nodes that make volumes from them. */
  readonly remoteSources: Pick<RemoteSources, 'bring' | 'hasReplica' | 'snapshotForClone'>;
  /** The handle of the node's volume with this name; empty if the node has none. */
  find(node: NodeConnection, name: string, context?: CallContext): Promise<string>;
  /** Resolves when the time is up that nodes after the first rank have to answer. */
  patience(): Promise<void>;
  readonly now: Clock;
  readonly logger: Logger;
  duplicateFound(): void;
  /** How many bytes the node has available for a volume like the requested one. */
  capacityOf(node: NodeConnection, request: RequestOf<'CreateVolume'>, context: CallContext): Promise<bigint>;
}

/** How long the router fails to reach a node before its volumes are made elsewhere. */
const GIVEN_UP_MS = 120_000;
/** Limit of the names that are looked up on all nodes once more. */
const MAX_NAMES = 1000;

export class VolumePlacement {
  /** Names of volumes whose node is being chosen. */
  readonly #names = new Set<string>();
  /** Names of volumes that were made while a node could not be asked. The oldest is given up first. */
  readonly #unsure = new Set<string>();

  constructor(private readonly deps: CreateVolumeDependencies) {}

  /**
   * Creates the volume of a request without a source, or with one that other nodes may pull or that these nodes have.
   *
   * @param among the nodes that can make the volume; left out if all can
   */
  async create(
    request: RequestOf<'CreateVolume'>,
    context: CallContext,
    among?: readonly NodeConnection[],
  ): Promise<Buffer> {
    const all = this.deps.nodes();
    const field = 'accessibility_requirements';
    const requirement = parseTopologyRequirement(request.accessibility_requirements, field);
    const candidates = candidatesFor(requirement, among ?? all, this.deps.topologyKey);
    const isFree = (requirement?.preferred ?? []).length === 0;
    const [first, ...others] = isFree ? await this.#nearestFirst(candidates, request) : candidates;
    if (first === undefined) throw among === undefined ? this.#noCandidate(requirement) : noCopyThere(request, among);
    this.#noteUnasked(request.name);
    if (others.length === 0) {
      return this.#unlessLost(first.node, () => this.#ask(first.node, request, context));
    }
    if (this.#names.has(request.name)) {
      throw CsiError.aborted(`volume '${request.name}' is being created by another call; try again when it has ended`);
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
   * The error if no node meets the requirement: UNAVAILABLE, because a node that is not listed now may have the volume already;
   * RESOURCE_EXHAUSTED, which makes an orchestrator try another node, if all requisite nodes are gone.
   */
  #noCandidate(requirement: TopologyRequirement | null): CsiError {
    if (requirement === null) return CsiError.unavailable('the router knows no node: list one');
    const segments = requirement.requisite.flatMap((topology) => Object.entries(topology));
    const named = segments.map(([key, value]) => `${key}=${value}`);
    const message =
      `no node that the router knows is in the requisite topologies (${named.slice(0, 5).join(', ')}): ` +
      'list the node, or set the same BLOCKDELTA_TOPOLOGY_KEY for the router and the nodes';
    const keys = segments.flatMap(([, value]) => [value, nodeKey(value)]);
    const areGone = keys.length > 0 && keys.every((key) => this.deps.isGone(key));
    return areGone ? CsiError.resourceExhausted(message) : CsiError.unavailable(message);
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
    // A snapshot is not copied to a node that the orchestrator has not chosen: it chooses another one after the refusal.
    const isChosen = sourceOf(request) !== null && (request.accessibility_requirements?.preferred ?? []).length > 0;
    for (const equals of isChosen ? ranks.slice(0, 1) : ranks) {
      const owner = await this.#holderOf(equals, request.name, context);
      if (owner !== null) return this.deps.ask(owner, context);
      for (const node of await this.#inOrder(equals, request, context)) {
        try {
          return await this.#ask(node, request, context);
        } catch (thrown) {
          if (!isFull(thrown)) throw thrown;
          refusal = thrown;
        }
      }
    }
    throw refusal;
  }

  /** Ranks nodes of equal rank by what a volume on them costs: nothing is pulled, it was pulled before, it has to be pulled. */
  async #nearestFirst(
    candidates: readonly Candidate[],
    request: RequestOf<'CreateVolume'>,
  ): Promise<readonly Candidate[]> {
    const source = sourceOf(request);
    if (source === null) return candidates;
    const owner = nodeKeyOf(source.handle);
    const ranked = candidates.map(async ({ node }): Promise<Candidate> => {
      if (node.key === owner) return { node, rank: 0 };
      const late = this.deps.patience().then(() => false);
      const hasReplica = await Promise.race([this.deps.remoteSources.hasReplica(node, source.handle), late]);
      return { node, rank: hasReplica ? 1 : 2 };
    });
    return (await Promise.all(ranked)).sort((a, b) => a.rank - b.rank);
  }

  async #ask(node: NodeConnection, request: RequestOf<'CreateVolume'>, context: CallContext): Promise<Buffer> {
    const source = sourceOf(request);
    const isRemote = source !== null && nodeKeyOf(source.handle) !== node.key;
    // A volume that was made already needs no snapshot any more.
    if (isRemote && !(await this.deps.find(node, request.name, context))) {
      const { remoteSources } = this.deps;
      const { handle, isVolume } = source;
      const cloneName = isVolume ? request.name : '';
      const snapshotId = isVolume ? await remoteSources.snapshotForClone(handle, cloneName) : handle;
      const wanted = { pool: request.parameters['pool'] ?? '', cloneName };
      await remoteSources.bring(node, snapshotId, wanted, context.deadline);
    }
    return this.deps.ask(node, context);
  }

  /** Turns UNAVAILABLE into RESOURCE_EXHAUSTED if the first node has been unreachable for GIVEN_UP_MS. */
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

  /** A node that reports in time that it has a volume with this name; null if no node does. */
  async #holderSoon(nodes: readonly NodeConnection[], name: string): Promise<NodeConnection | null> {
    const late = this.deps.patience().then(() => null);
    const ask = async (node: NodeConnection): Promise<NodeConnection | null> => {
      const handle = await this.deps.find(node, name).catch(() => '');
      if (handle === '') return null;
      // Another node may have been asked to make the volume meanwhile.
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

  /** Looks up all names in #unsure once more, for example when a node is back or has answered late. Never rejects. */
  async lookAgain(): Promise<void> {
    for (let isMissed = true; isMissed; ) {
      isMissed = false;
      const names = [...this.#unsure];
      this.#unsure.clear();
      for (const name of names) isMissed = (await this.#look(name)) || isMissed;
      if (isMissed) await this.deps.patience();
    }
  }

  /** Reports a volume that several nodes have. Resolves to whether a reachable node has not answered. Never rejects. */
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

  /** The node that has a volume with this name; null if none has. Rejects if no node has it and a node does not answer. */
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

  /** The nodes in the order of their capacity, the most first. */
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
  /** Nodes with a lower number come first; nodes of equal rank in the order of their capacity. */
  readonly rank: number;
}

/** Groups the nodes by rank, in the order of the ranks. */
function byRank(candidates: readonly Candidate[]): NodeConnection[][] {
  const ranks = new Map<number, NodeConnection[]>();
  for (const { node, rank } of candidates) ranks.set(rank, [...(ranks.get(rank) ?? []), node]);
  return [...ranks.values()];
}

/** The nodes that meet a requirement. Nodes of preferred topologies come first, in the order of these topologies. */
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

/** What the volume is made from; null if it is to be empty. */
function sourceOf({
  volume_content_source: source,
}: RequestOf<'CreateVolume'>): { handle: string; isVolume: boolean } | null {
  if (source?.snapshot != null) return { handle: source.snapshot.snapshot_id, isVolume: false };
  return source?.volume == null ? null : { handle: source.volume.volume_id, isVolume: true };
}

/** An orchestrator tries another node after RESOURCE_EXHAUSTED. */
const noCopyThere = (request: RequestOf<'CreateVolume'>, among: readonly NodeConnection[]): CsiError =>
  CsiError.resourceExhausted(
    `${sourceOf(request)?.handle} is lost on its own node, and the requisite topologies have none of the nodes with a copy: ` +
      among.map(({ id }) => id).join(', '),
  );

function isFull(thrown: unknown): boolean {
  return thrown instanceof CsiError && thrown.code === StatusCode.RESOURCE_EXHAUSTED;
}
