/**
 * Another node and a router beside the plugin of a scene, each on a host of a network of their own: what a scene needs to pull
 * snapshots and to serve them. Their steps are not counted.
 */
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Authority, type CertificateFiles, tlsSettings } from '../support/certificates.js';
import { type Contents, emptyContents, specOf, type VolumeKind } from '../support/contents.js';
import type { Message } from '../support/csi-client.js';
import { eventually } from '../support/eventually.js';
import { TestNetwork } from '../support/network.js';
import {
  createRequest,
  type HeldVolume,
  Orchestrator,
  untilSettled,
  type VolumeSpec,
} from '../support/orchestrator.js';
import { Plugin } from '../support/plugin.js';
import type { Random } from '../support/random.js';
import { statusOf } from '../support/refusal.js';
import { makePoolFileSystem, Workspace } from '../support/workspace.js';

/** Hosts of the network; the router is at its switch. */
const HOSTS = { router: 0, scene: 1, neighbour: 2 } as const;
export type NodeName = 'scene' | 'neighbour';

const PORT = 9810;
const TOPOLOGY_KEY = 'blockdelta.csi/node';

export class Neighbour {
  /** Of the neighbour itself, not through the router. */
  readonly orchestrator: Orchestrator;
  #plugin: Plugin | undefined;
  #router: Plugin | undefined;
  #names = 0;
  #poolPath = '';

  private constructor(
    private readonly workspace: Workspace,
    private readonly network: TestNetwork,
    private readonly files: Readonly<Record<keyof typeof HOSTS, CertificateFiles>>,
  ) {
    this.orchestrator = new Orchestrator(workspace, () => this.plugin.client);
  }

  static async start(label: string): Promise<Neighbour> {
    const workspace = new Workspace(label);
    const network = await TestNetwork.create(2);
    const authority = new Authority(workspace.directory);
    const neighbour = new Neighbour(workspace, network, {
      router: authority.issue('router', 'blockdelta-router'),
      scene: authority.issueNode('scene', 'scene'),
      neighbour: authority.issueNode('neighbour', 'neighbour'),
    });
    try {
      await neighbour.#start();
      return neighbour;
    } catch (thrown) {
      await neighbour.dispose();
      throw thrown;
    }
  }

  get plugin(): Plugin {
    if (this.#plugin === undefined) throw new Error('the neighbour does not run');
    return this.#plugin;
  }

  /** Of the neighbour. */
  get poolPath(): string {
    return this.#poolPath;
  }

  /** The settings of a node. */
  env(node: NodeName): Record<string, string> {
    return {
      BLOCKDELTA_NODE_ID: node,
      BLOCKDELTA_LISTEN_ADDRESS: `${this.network.address(HOSTS[node])}:${PORT}`,
      BLOCKDELTA_TRANSFER_PORTS: '10900-10903',
      ...tlsSettings(this.files[node]),
    };
  }

  /** What executes a program on the host of a node. */
  by(node: NodeName): string[] {
    return this.network.on(HOSTS[node]);
  }

  /** A volume on that node, from whatever source, through the router. Repeated while a pull is under way. */
  async make(node: NodeName, name: string, spec: VolumeSpec): Promise<Message> {
    const on = (id: NodeName): Message => ({ segments: { [TOPOLOGY_KEY]: id } });
    const accessibility_requirements = { requisite: [on('scene'), on('neighbour')], preferred: [on(node)] };
    const request = {
      ...createRequest(name, { ...spec, parameters: { remoteSources: 'true' } }),
      accessibility_requirements,
    };
    const answer = await untilSettled(() =>
      this.#routing.client.controller.CreateVolume(request, { deadlineMs: 30_000 }),
    );
    return answer['volume'];
  }

  /**
   * A snapshot that the other node keeps a copy of, through the router. Repeated until it is ready, while copies that fail are tried
   * again.
   *
   * @param goesOn whether it is worth repeating
   */
  async copied(volumeId: string, name: string, goesOn: () => boolean): Promise<string> {
    const request = { source_volume_id: volumeId, name, parameters: { copies: '1' } };
    for (;;) {
      const attempt = this.#routing.client.controller.CreateSnapshot(request);
      const status = await statusOf(attempt);
      if (status !== 'OK' && (status !== 'UNAVAILABLE' || !goesOn())) await attempt;
      const { snapshot } = status === 'OK' ? await attempt : { snapshot: null };
      if (snapshot?.ready_to_use === true) return snapshot.snapshot_id;
      if (!goesOn()) throw new Error(`snapshot ${name} is not ready, and its copy cannot be made`);
      await delay(20);
    }
  }

  /** Deletes a snapshot of either node through the router, until no file of the pool belongs to it or its copy. */
  async deleteCopied(snapshotId: string, poolPath: string, goesOn: () => boolean): Promise<void> {
    const snapshots = join(poolPath, 'snapshots');
    do {
      // The router may be removing the copy already.
      await untilSettled(() => this.#routing.client.controller.DeleteSnapshot({ snapshot_id: snapshotId }));
      if (!goesOn()) return;
      await delay(20);
    } while (readdirSync(snapshots).some((name) => name.startsWith(snapshotId)));
  }

  /** Resolves when the router reaches the node, which may have been started again. */
  async reaches(node: NodeName): Promise<void> {
    const accessible_topology = { segments: { [TOPOLOGY_KEY]: node } };
    const { controller } = this.#routing.client;
    const isReached = async (): Promise<boolean> =>
      (await statusOf(controller.GetCapacity({ accessible_topology }))) === 'OK';
    await eventually(`the router reaches ${node}`, isReached);
  }

  /** A new volume of the neighbour, in use. */
  async used(kind: VolumeKind, random: Random): Promise<{ volume: HeldVolume; contents: Contents }> {
    this.#names += 1;
    const volume = await this.orchestrator.create(`volume ${this.#names}`, specOf(kind));
    const contents = emptyContents(kind);
    await contents.work(await this.orchestrator.bringUp(volume), random);
    return { volume, contents };
  }

  async dispose(): Promise<void> {
    await this.#router?.kill();
    await this.#plugin?.kill();
    await this.network.dispose();
    this.workspace.dispose();
  }

  get #routing(): Plugin {
    if (this.#router === undefined) throw new Error('the router does not run');
    return this.#router;
  }

  async #start(): Promise<void> {
    const pool = makePoolFileSystem(this.workspace, 'xfs', 1024);
    this.#poolPath = pool;
    this.#plugin = await Plugin.start(this.workspace, {
      pools: `main=${pool}`,
      by: this.by('neighbour'),
      env: this.env('neighbour'),
    });
    const nodes = (['scene', 'neighbour'] as const).map((id) => ({
      id,
      address: `${this.network.address(HOSTS[id])}:${PORT}`,
    }));
    const list = this.workspace.path('nodes.json');
    writeFileSync(list, JSON.stringify({ nodes }));
    this.#router = await Plugin.route({
      socket: this.workspace.path('router.sock'),
      by: this.network.on(HOSTS.router),
      env: { BLOCKDELTA_ROUTE_NODES: `file:${list}`, ...tlsSettings(this.files.router) },
    }).ready();
  }
}
