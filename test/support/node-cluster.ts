/**
 * Plugins in network namespaces of their own, and a router in another, as the nodes of a cluster: real processes, pools, cables
 * and certificates. Mounts and devices are those of this machine. Needs root.
 */
import { mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { StatusCode } from '../../src/base/errors.js';
import { Authority, type CertificateFiles, tlsSettings } from './certificates.js';
import { runCommand } from './command.js';
import type { Message } from './csi-client.js';
import { eventually } from './eventually.js';
import { TestNetwork } from './network.js';
import { createRequest, type HeldVolume, Orchestrator, type VolumeSpec } from './orchestrator.js';
import { Plugin } from './plugin.js';
import { makePoolFileSystem, type PoolKind, Workspace } from './workspace.js';

const TOPOLOGY_KEY = 'blockdelta.csi/node';

/** node-1, node-2, ... with a pool each; `thin`: on files of its own. */
export interface NodeClusterOptions {
  readonly pools: readonly (PoolKind | 'thin')[];
  readonly poolSizeMiB?: number;
  readonly env?: Record<string, string>;
}

export class NodeCluster {
  readonly place: Workspace;
  readonly #plugins: Plugin[] = [];
  readonly #files: CertificateFiles[] = [];
  readonly #poolPaths: string[] = [];
  #router: Plugin | undefined;

  private constructor(
    label: string,
    readonly network: TestNetwork,
    private readonly options: NodeClusterOptions,
  ) {
    this.place = new Workspace(label);
  }

  static async start(label: string, options: NodeClusterOptions): Promise<NodeCluster> {
    const cluster = new NodeCluster(label, await TestNetwork.create(options.pools.length), options);
    try {
      await cluster.#start();
      return cluster;
    } catch (thrown) {
      await cluster.dispose();
      throw thrown;
    }
  }

  get router(): Plugin {
    if (this.#router === undefined) throw new Error('the router does not run');
    return this.#router;
  }

  /** From 1 on. */
  plugin(node: number): Plugin {
    const plugin = this.#plugins[node];
    if (plugin === undefined) throw new Error(`there is no node ${node}`);
    return plugin;
  }

  poolPath(node: number): string {
    return this.#poolPaths[node] ?? '';
  }

  /** The setting. */
  poolsOf(node: number): string {
    return `main=${this.options.pools[node - 1] === 'thin' ? 'thin:' : ''}${this.poolPath(node)}`;
  }

  nodeId(node: number): string {
    return `node-${node}`;
  }

  /** The controller through the router, the node by its own socket, as sidecars and kubelet do it. */
  orchestrator(node: number): Orchestrator {
    return new Orchestrator(this.place, () =>
      Object.create(this.router.client, { node: { value: this.plugin(node).client.node } }),
    );
  }

  /** A volume on a node, from whatever source, as external-provisioner makes it: the call is repeated while it is ABORTED. */
  async create(node: number, name: string, spec: VolumeSpec = {}): Promise<HeldVolume> {
    const preferred = [{ segments: { [TOPOLOGY_KEY]: this.nodeId(node) } }];
    const all = this.options.pools.map((_, index) => ({ segments: { [TOPOLOGY_KEY]: this.nodeId(index + 1) } }));
    const request = { ...createRequest(name, spec), accessibility_requirements: { requisite: all, preferred } };
    const { volume } = await this.untilMade(request);
    return this.orchestrator(node).hold(name, volume, spec.capability);
  }

  /** @param client of a router */
  async untilMade(request: Message, client = this.router.client): Promise<Message> {
    for (;;) {
      try {
        return await client.controller.CreateVolume(request, { deadlineMs: 30_000 });
      } catch (thrown) {
        if ((thrown as { code?: number }).code !== StatusCode.ABORTED) throw thrown;
        await delay(50);
      }
    }
  }

  async startPlugin(node: number, env: Record<string, string> = {}): Promise<void> {
    const address = `${this.network.address(node)}:9810`;
    this.#plugins[node] = await Plugin.start(this.place, {
      name: this.nodeId(node),
      pools: this.poolsOf(node),
      by: this.network.on(node),
      env: {
        BLOCKDELTA_NODE_ID: this.nodeId(node),
        BLOCKDELTA_LISTEN_ADDRESS: address,
        BLOCKDELTA_TRANSFER_PORTS: '10900-10903',
        ...tlsSettings(this.#files[node] as CertificateFiles),
        ...this.options.env,
        ...env,
      },
    });
  }

  /** Replaces the router's list, as an operator does. */
  list({ retired = [] }: { retired?: readonly number[] }): void {
    const nodes = this.options.pools.map((_, index) => ({
      id: this.nodeId(index + 1),
      address: `${this.network.address(index + 1)}:9810`,
      ...(retired.includes(index + 1) ? { retired: true } : {}),
    }));
    const file = this.place.path('nodes.json');
    writeFileSync(`${file}.new`, JSON.stringify({ nodes }));
    renameSync(`${file}.new`, file);
  }

  /** Says in the list that a node is gone, and waits until the router knows. */
  async retire(node: number): Promise<void> {
    const lines = (): number => this.router.log.split(`"retired":["${this.nodeId(node)}"]`).length;
    const before = lines();
    this.list({ retired: [node] });
    await eventually('the list is read', () => lines() > before);
  }

  /** Starts a node again with nothing of what it knew and had, under its name. */
  async reinstall(node: number): Promise<void> {
    await this.plugin(node).stop();
    rmSync(this.place.path(this.nodeId(node)), { recursive: true });
    this.#poolPaths[node] = join(this.poolPath(node), 'reinstalled');
    mkdirSync(this.poolPath(node));
    await this.startPlugin(node);
  }

  /** What a command prints on a node. */
  async command(t: TestContext, node: number, ...args: string[]): Promise<string> {
    const env = {
      BLOCKDELTA_STATE_DIR: this.place.path(this.nodeId(node)),
      BLOCKDELTA_POOLS: this.poolsOf(node),
    };
    const { stdout, stderr, code } = await runCommand(t, args, env);
    if (code !== 0) throw new Error(stderr);
    return stdout;
  }

  async startRouter(): Promise<void> {
    this.#router = await this.#route('router.sock');
  }

  /** The caller ends it. */
  startSecondRouter(): Promise<Plugin> {
    return this.#route('second-router.sock');
  }

  #route(socket: string): Promise<Plugin> {
    return Plugin.route({
      socket: this.place.path(socket),
      by: this.network.on(0),
      env: {
        BLOCKDELTA_ROUTE_NODES: `file:${this.place.path('nodes.json')}`,
        ...tlsSettings(this.#files[0] as CertificateFiles),
      },
    }).ready();
  }

  async dispose(): Promise<void> {
    await this.#router?.kill();
    for (const plugin of this.#plugins) await plugin?.kill();
    await this.network.dispose();
    this.place.dispose();
  }

  async #start(): Promise<void> {
    const { pools, poolSizeMiB = 1024 } = this.options;
    const authority = new Authority(this.place.directory);
    this.#files[0] = authority.issue('router', 'blockdelta-router');
    for (const [index, kind] of pools.entries()) {
      const node = index + 1;
      this.#files[node] = authority.issueNode(this.nodeId(node), this.nodeId(node));
      const name = this.nodeId(node);
      this.#poolPaths[node] =
        kind === 'thin' ? this.place.path(`${name}.thin`) : makePoolFileSystem(this.place, kind, poolSizeMiB, name);
    }
    await Promise.all(pools.map((_, index) => this.startPlugin(index + 1)));
    this.list({});
    await this.startRouter();
  }
}

/** What sidecars answer with the same call again: a node is away, or still works on a call whose router has ended. */
const TRY_AGAIN: readonly (number | undefined)[] = [StatusCode.UNAVAILABLE, StatusCode.ABORTED];

/** Repeats a call while a node cannot be reached, or is busy with the object. */
export async function untilReachable<T>(call: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await call();
    } catch (thrown) {
      if (!TRY_AGAIN.includes((thrown as { code?: number }).code)) throw thrown;
      await delay(100);
    }
  }
}
