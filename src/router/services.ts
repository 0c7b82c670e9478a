/**
 * The services of the router. Each RPC of routes.ts is passed on as bytes to its node, or answered from the answers of nodes.
 *
 * The router does not check what a node checks: a request without a handle, or with a string that is not a handle, goes to any
 * node, so that only one place knows which requests are valid.
 */
import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { CsiLevel } from '../base/csi/capabilities.js';
import { nodeKeyOf } from '../base/csi/handles.js';
import { parsePage } from '../base/csi/pagination.js';
import { CSI_PACKAGE, encodeMessage, servedServices } from '../base/csi/proto.js';
import {
  type AnyService,
  type CallContext,
  EncodedResponse,
  type RelayWriter,
  type RequestOf,
  type ServiceName,
} from '../base/csi/service.js';
import { CsiError, StatusCode } from '../base/errors.js';
import { capacityRequest, nodesWithin, totalCapacity } from './capacity.js';
import { capabilitiesFor, commonEntries } from './common-capabilities.js';
import { Copies } from './copies.js';
import { VolumePlacement } from './create-volume.js';
import { KeptCopies } from './kept-copies.js';
import { type ListRequest, mergedPage } from './merged-lists.js';
import { decode, fieldsOfRequest } from './messages.js';
import { callNode } from './node-calls.js';
import type { NodeCall, NodeConnection } from './node-connection.js';
import type { Clock } from './node-list.js';
import type { Nodes } from './nodes.js';
import { Recovery } from './recovery.js';
import { RemoteSources } from './remote-sources.js';
import type { RouterSide } from './router-rpcs.js';
import { ownerIn, ROUTES, type Route } from './routes.js';
import { Successions } from './successions.js';

export interface RouterDependencies {
  readonly nodes: Nodes;
  readonly driverName: string;
  readonly vendorVersion: string;
  readonly csiLevel: CsiLevel;
  readonly topologyKey: string;
  readonly logger: Logger;
  readonly now: Clock;
  /** Called whenever the router finds that several nodes have a volume with the same name. */
  duplicateFound(): void;
}

/** Names each client of the router in the calls to nodes, so that nodes serve the router's clients in turn. */
class Callers {
  /** Random, because several routers may call the same node. */
  readonly #router = randomBytes(4).toString('hex');
  readonly #names = new WeakMap<object, string>();
  #count = 0;

  nameOf(peer: object): string {
    const known = this.#names.get(peer);
    if (known !== undefined) return known;
    this.#count += 1;
    const name = `${this.#router}-${this.#count}`;
    this.#names.set(peer, name);
    return name;
  }
}

type Unary = (request: never, context: CallContext) => Promise<object>;
type Stream = (request: never, context: CallContext, writer: RelayWriter) => Promise<void>;

/** How long nodes after the first rank may take to say whether they have a volume (create-volume.ts). */
const ANSWER_MS = 2000;
/** How long any node may take to say whether it has a volume when nobody waits for the answer. */
const LATE_ANSWER_MS = 60_000;
/** How long a node may take to report its capabilities before it counts as unreachable. */
const CAPABILITIES_MS = 5000;
/** How many list entries the router asks a node for at once if the caller sets no limit. */
const LIST_BATCH = 2000;

/** All services except Identity, which router.ts builds, and of that GetPluginCapabilities. */
export function createRouterServices(deps: RouterDependencies): {
  services: AnyService[];
  pluginCapabilities: Unary;
  routerSide: RouterSide;
  stop(): Promise<void>;
} {
  const router = new RoutedServices(deps);
  deps.nodes.onConnected = (key) => {
    void router.placement.lookAgain();
    void router.copies.connected(key);
  };
  return {
    services: (['Controller', 'GroupController', 'SnapshotMetadata'] as const).map((name) => router.service(name)),
    pluginCapabilities: router.unary('Identity', 'GetPluginCapabilities', 'common'),
    routerSide: router,
    stop: async () => {
      await router.copies.stop();
      await router.remoteSources.stop();
    },
  };
}

class RoutedServices implements RouterSide {
  readonly #callers = new Callers();
  readonly placement: VolumePlacement;
  readonly remoteSources: RemoteSources;
  readonly copies: Copies;
  readonly recovery: Recovery;
  readonly successions: Successions;
  readonly keptCopies: KeptCopies;

  constructor(private readonly deps: RouterDependencies) {
    const { nodes, logger, now } = deps;
    const known = {
      nodes: () => nodes.all,
      owning: (key: string, handle: string) => nodes.owning(key, handle),
      isRetired: (key: string) => nodes.isRetired(key),
      knowsRetired: () => nodes.knowsRetired,
      patience: () => delay(ANSWER_MS, undefined, { ref: false }),
      logger,
      now,
    };
    const sources = new RemoteSources(known);
    this.remoteSources = sources;
    this.successions = new Successions({ ...known, sources });
    this.copies = new Copies({ ...known, sources, successions: this.successions });
    this.keptCopies = new KeptCopies({ ...known, sources, copies: this.copies });
    this.recovery = new Recovery({ ...known, sources });
    this.placement = new VolumePlacement({
      ...deps,
      ...known,
      remoteSources: sources,
      isGone: (key) => nodes.isRetired(key) || nodes.isMissing(key),
      ask: (node, context) => this.#ask(node, 'Controller', 'CreateVolume', context),
      find: (node, name, context) => this.#findVolume(node, name, context),
      capacityOf: (node, request, context) => this.#capacityOf(node, request, context),
    });
  }

  service(name: ServiceName): AnyService {
    const unary: Record<string, Unary> = {};
    const streams: Record<string, Stream> = {};
    for (const [rpc, { responseStream }] of Object.entries(servedServices()[name])) {
      const route: Route = ROUTES[rpc as keyof typeof ROUTES];
      if (responseStream) streams[rpc] = this.#stream(name, rpc);
      else unary[rpc] = this.unary(name, rpc, route);
    }
    return { name, unary, streams } as unknown as AnyService;
  }

  unary(service: ServiceName, rpc: string, route: Route): Unary {
    const answer = this.#answering(service, rpc, route);
    return async (request, context) => new EncodedResponse(await answer(request, context));
  }

  #answering(
    service: ServiceName,
    rpc: string,
    route: Route,
  ): (request: never, context: CallContext) => Promise<Buffer> {
    switch (route) {
      case 'placed':
        return (request, context) => this.#createVolume(request, context);
      case 'capacity':
        return (request, context) => this.#capacity(request, context);
      case 'list':
        return (request, context) => this.#list(service, rpc, request, context);
      case 'common':
        return (_request, context) => this.#common(service, rpc, context);
      case 'handle':
        return async (request, context) =>
          this.#isGone(rpc, request) ? NOTHING : this.#ask(this.#nodeFor(rpc, request), service, rpc, context);
      case 'copied':
        return (request, context) => this.#createSnapshot(request, context);
      case 'everywhere':
        return (request, context) => this.#deleteSnapshot(request, context);
      case 'router':
        throw new Error(`${rpc} is not passed on`);
    }
  }

  #stream(service: ServiceName, rpc: string): Stream {
    return async (request, context, writer) => {
      const node = this.#nodeFor(rpc, request);
      context.note({ node: node.id });
      await node.stream(this.#callOf(service, rpc, context), (messages) => writer.forward(messages));
      // This waits until the client has taken the last message. Then the stream may end.
      await writer.send(NOTHING);
    };
  }

  #nodeFor(rpc: string, request: object): NodeConnection {
    const owner = ownerIn(rpc, request);
    const { nodes } = this.deps;
    if (owner === null) return nodes.any();
    return nodes.owning(owner.key, owner.handle, REMOVES.test(rpc));
  }

  /** Whether the call removes what a retired node had. */
  #isGone(rpc: string, request: object): boolean {
    const key = ownerIn(rpc, request)?.key;
    return key !== undefined && REMOVES.test(rpc) && this.deps.nodes.isRetired(key);
  }

  #callOf(service: ServiceName, rpc: string, context: CallContext, request?: Buffer): NodeCall {
    return {
      path: `/${CSI_PACKAGE}.${service}/${rpc}`,
      request: request ?? context.encodedRequest,
      deadline: context.deadline,
      signal: context.signal,
      caller: this.#callers.nameOf(context.peer),
    };
  }

  #ask(
    node: NodeConnection,
    service: ServiceName,
    rpc: string,
    context: CallContext,
    request?: Buffer,
  ): Promise<Buffer> {
    context.note({ node: node.id });
    return node.unary(this.#callOf(service, rpc, context, request));
  }

  async #createVolume(request: RequestOf<'CreateVolume'>, context: CallContext): Promise<Buffer> {
    try {
      return await this.#createBySource(request, context);
    } catch (thrown) {
      const id = request.volume_content_source?.snapshot?.snapshot_id;
      const holders = id === undefined ? [] : await this.recovery.holders(id, thrown, context);
      if (holders.length === 0) throw thrown;
      return this.placement.create(request, context, holders);
    }
  }

  async #createBySource(request: RequestOf<'CreateVolume'>, context: CallContext): Promise<Buffer> {
    // The node of the source also checks whether the node meets the topology.
    const owner = ownerIn('CreateVolume', request);
    const isRemote = owner !== null && request.parameters['remoteSources'] === 'true';
    if (!isRemote && (owner !== null || request.volume_content_source !== null)) {
      const node = this.#nodeFor('CreateVolume', request);
      return this.#ask(node, 'Controller', 'CreateVolume', context);
    }
    return this.placement.create(request, context);
  }

  async #createSnapshot(request: RequestOf<'CreateSnapshot'>, context: CallContext): Promise<Buffer> {
    const node = this.#nodeFor('CreateSnapshot', request);
    const { source_volume_id: volumeId, parameters } = request;
    const isCopied = parameters['copies'] !== undefined && nodeKeyOf(volumeId) !== null;
    if (!isCopied) return this.#ask(node, 'Controller', 'CreateSnapshot', context);
    context.note({ node: node.id });
    return this.copies.createSnapshot(node, volumeId, context);
  }

  async #deleteSnapshot(request: RequestOf<'DeleteSnapshot'>, context: CallContext): Promise<Buffer> {
    const { snapshot_id: id } = request;
    if (this.#isGone('DeleteSnapshot', request)) {
      await this.copies.deleteReplicas(id);
      return NOTHING;
    }
    const node = this.#nodeFor('DeleteSnapshot', request);
    const remove = (): Promise<Buffer> => this.#ask(node, 'Controller', 'DeleteSnapshot', context);
    return nodeKeyOf(id) === null ? remove() : this.copies.deleteSnapshot(node, id, context, remove);
  }

  async #capacity(request: RequestOf<'GetCapacity'>, context: CallContext): Promise<Buffer> {
    const { nodes, topologyKey } = this.deps;
    const all = nodes.all;
    if (all.length === 0) return nodes.any().unary(this.#callOf('Controller', 'GetCapacity', context));
    const within = nodesWithin(request, all, topologyKey);
    const [only, ...others] = within;
    if (only !== undefined && others.length === 0) {
      return this.#ask(only, 'Controller', 'GetCapacity', context);
    }
    // If the topology has no node, any node answers that it has no capacity there, or that the request is not valid.
    const asked = within.length === 0 ? [nodes.any()] : within;
    const answers = await Promise.all(asked.map((node) => this.#ask(node, 'Controller', 'GetCapacity', context)));
    return totalCapacity(answers);
  }

  /** The handle of the node's volume with this name; empty if the node has none. */
  async #findVolume(node: NodeConnection, name: string, context?: CallContext): Promise<string> {
    const signal = AbortSignal.timeout(LATE_ANSWER_MS);
    const call =
      context === undefined
        ? { deadline: Infinity, signal, caller: 'router' }
        : this.#callOf('Controller', 'CreateVolume', context);
    try {
      return (await callNode(node, 'FindVolume', { name }, call)).volume_id;
    } catch (thrown) {
      // The node has a version that does not know this RPC.
      if (CsiError.from(thrown).code === StatusCode.UNIMPLEMENTED) return '';
      throw thrown;
    }
  }

  async #capacityOf(node: NodeConnection, request: RequestOf<'CreateVolume'>, context: CallContext): Promise<bigint> {
    const question = capacityRequest(request);
    const answer = await this.#ask(node, 'Controller', 'GetCapacity', context, question);
    const { available_capacity: bytes } = decode<{ available_capacity: string }>('GetCapacityResponse', answer);
    return BigInt(bytes);
  }

  async #list(
    service: ServiceName,
    rpc: string,
    request: RequestOf<'ListSnapshots'>,
    context: CallContext,
  ): Promise<Buffer> {
    const filters = [request.snapshot_id, request.source_volume_id].filter(Boolean);
    if (filters.length > 0) {
      const keys = filters.map((handle) => nodeKeyOf(handle));
      // A snapshot on one node has no source on another node, so nothing passes both filters.
      if (keys.length === 2 && keys[0] !== keys[1]) return NOTHING;
      return this.#ask(this.#nodeFor(rpc, request), service, rpc, context);
    }
    const { maxEntries, startingToken } = parsePage(request);
    const ask = (key: string, page: ListRequest): Promise<Buffer> => {
      const node = this.deps.nodes.owning(key, 'the next part of the list');
      const question = pageOf(context.encodedRequest, page);
      return this.#ask(node, service, rpc, context, question);
    };
    const keys = this.deps.nodes.all.map(({ key }) => key);
    return mergedPage(keys, { maxEntries, startingToken }, ask);
  }

  async #common(service: ServiceName, rpc: string, context: CallContext): Promise<Buffer> {
    const all = this.deps.nodes.all;
    const signal = AbortSignal.any([context.signal, AbortSignal.timeout(CAPABILITIES_MS)]);
    const call = { ...this.#callOf(service, rpc, context), signal };
    const answers = await Promise.allSettled(all.map((node) => node.unary(call)));
    const found = answers.flatMap((answer) => (answer.status === 'fulfilled' ? [answer.value] : []));
    const failed = answers.find((answer) => answer.status === 'rejected');
    if (found.length === 0 && failed !== undefined) {
      context.signal.throwIfAborted();
      throw CsiError.from(failed.reason);
    }
    context.note({ nodes: all.length, answered: found.length });
    return commonEntries(capabilitiesFor(rpc, this.deps.csiLevel), found);
  }
}

/** The request of any list, changed to ask for one page. Its fields 1 and 2 are max_entries and starting_token. */
function pageOf(request: Buffer, { maxEntries, startingToken }: ListRequest): Buffer {
  const kept = fieldsOfRequest(request).filter(({ number }) => number > 2);
  const page = encodeMessage('ListVolumesRequest', {
    max_entries: maxEntries === 0 ? LIST_BATCH : maxEntries,
    starting_token: startingToken,
  });
  return Buffer.concat([page, ...kept.map(({ bytes }) => bytes)]);
}

const NOTHING = Buffer.alloc(0);

const REMOVES = /^Delete|Unpublish/;
