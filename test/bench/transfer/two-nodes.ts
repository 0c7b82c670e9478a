/**
 * Two plugins with pools of their own and a router, as processes on addresses of the loopback interface. The router makes volumes
 * on one node of snapshots of the other, so the one pulls what the other serves.
 */
import { randomInt } from 'node:crypto';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { nodeUri } from '../../../src/base/csi/routed-calls.js';
import { BLOCK, Volumes } from '../../../src/tools/bench/measured-volumes.js';
import { PluginProcess } from '../../../src/tools/bench/plugin-process.js';
import { makePool } from '../../../src/tools/bench/pool.js';
import type { Settings } from '../../../src/tools/bench/suite.js';
import { Workspace } from '../../../src/tools/bench/workspace.js';
import { Cleanup } from '../../../src/tools/client/cleanup.js';
import { CsiDriver } from '../../../src/tools/client/csi-driver.js';
import { issueCertificates } from '../certificates.js';
import { ProcessMeter } from '../process-meter.js';
import { ServerProcess } from '../streams/server-process.js';

const PORT = 9810;
const POOL = 'bench';
const DRIVER = 'blockdelta.csi';
const TOPOLOGY_KEY = 'blockdelta.csi/node';
/** Little beside the seconds of a pull. */
const POLL_MS = 5;

type Env = Record<string, string>;

/** A plugin that can be started again with other settings, and its volumes. */
export class PullingNode {
  private constructor(
    private readonly start: (env: Env) => Promise<PluginProcess>,
    private readonly processes: Cleanup,
    private plugin: PluginProcess,
    readonly pool: string,
    readonly volumes: Volumes,
  ) {}

  static async make(settings: Settings, workspace: Workspace, id: string, env: Env): Promise<PullingNode> {
    const pool = await makePool(workspace, 'xfs', `${id}-pool`);
    // Of the plugin: at the end of the run, its volumes go before it, also after a restart.
    const processes = new Cleanup();
    settings.cleanup.defer(() => processes.runAll());
    const start = (more: Env): Promise<PluginProcess> =>
      PluginProcess.start({ program: settings.program, cleanup: processes }, workspace, {
        name: id,
        env: { BLOCKDELTA_NODE_ID: id, BLOCKDELTA_POOLS: `${POOL}=${pool}`, ...env, ...more },
      });
    const plugin = await start({});
    const volumes = new Volumes(settings, plugin.driver, workspace);
    return new PullingNode(start, processes, plugin, pool, volumes);
  }

  get meter(): ProcessMeter {
    return new ProcessMeter(this.plugin.pid);
  }

  async restart(env: Env): Promise<void> {
    await this.processes.runAll();
    this.plugin = await this.start(env);
    this.volumes.driver = this.plugin.driver;
  }

  async end(): Promise<void> {
    await this.volumes.removeAll();
    await this.processes.runAll();
  }
}

export class TwoNodes {
  readonly #madeByPulls: string[] = [];

  private constructor(
    private readonly workspace: Workspace,
    private readonly routing: ServerProcess,
    private readonly router: CsiDriver,
    readonly source: PullingNode,
    readonly target: PullingNode,
  ) {}

  static async start(settings: Settings): Promise<TwoNodes> {
    const workspace = Workspace.make(settings, 'transfer-nodes');
    const name = (id: string): string => `DNS:blockdelta-node,URI:${nodeUri(DRIVER, id)}`;
    const certificates = await issueCertificates(workspace.directory, {
      source: name('source'),
      target: name('target'),
      router: 'DNS:blockdelta-router',
    });
    // All of 127.0.0.0/8 is this machine's own: nothing else listens on an address nobody has chosen.
    const network = `127.${randomInt(1, 255)}.${randomInt(0, 255)}`;
    const addresses = { source: `${network}.1:${PORT}`, target: `${network}.2:${PORT}` };
    const make = (id: 'source' | 'target'): Promise<PullingNode> =>
      PullingNode.make(settings, workspace, id, {
        BLOCKDELTA_LISTEN_ADDRESS: addresses[id],
        BLOCKDELTA_TRANSFER_PORTS: '10900-10903',
        ...certificates[id],
      });
    const [source, target] = [await make('source'), await make('target')];
    const list = workspace.path('nodes.json');
    const nodes = Object.entries(addresses).map(([id, address]) => ({ id, address }));
    writeFileSync(list, JSON.stringify({ nodes }));
    const socket = workspace.path('router.sock');
    const routing = await ServerProcess.fork(settings, 'router-server', socket, {
      env: { BLOCKDELTA_ROUTE_NODES: `file:${list}`, ...certificates.router },
    });
    const router = new CsiDriver(socket, new AbortController().signal);
    settings.cleanup.defer(() => router.close());
    return new TwoNodes(workspace, routing, router, source, target);
  }

  /**
   * Pulls the snapshot, and calls `meanwhile` as soon as that has begun. Resolves to the seconds until the replica was complete,
   * when `meanwhile` has ended, too.
   */
  async pull(
    snapshotId: string,
    sizeBytes: number,
    meanwhile: (isOver: () => boolean) => Promise<void> = async () => undefined,
  ): Promise<number> {
    const preferred = [{ segments: { [TOPOLOGY_KEY]: 'target' } }];
    let failure: unknown = null;
    const made = this.router.call('CreateVolume', {
      name: `of ${snapshotId}`,
      capacity_range: { required_bytes: String(sizeBytes) },
      volume_capabilities: [BLOCK],
      parameters: { remoteSources: 'true' },
      volume_content_source: { snapshot: { snapshot_id: snapshotId } },
      accessibility_requirements: { requisite: preferred, preferred },
    });
    made.catch((thrown) => {
      failure ??= thrown;
    });
    const exists = (kind: 'pull' | 'replica'): boolean =>
      existsSync(join(this.target.pool, 'snapshots', `${snapshotId}.${kind}`));
    const isOver = (): boolean => exists('replica');
    const until = async (condition: () => boolean): Promise<number> => {
      while (!condition()) {
        if (failure !== null) throw failure;
        await delay(POLL_MS);
      }
      return performance.now();
    };
    const started = await until(() => exists('pull') || isOver());
    const [ended] = await Promise.all([until(isOver), meanwhile(isOver)]);
    const { volume } = await made;
    this.#madeByPulls.push(String(volume.volume_id));
    return (ended - started) / 1000;
  }

  /** Ends the router and the plugins, and gives back the space of their pools, if nobody holds a copy of their mounts. */
  async end(): Promise<void> {
    for (const volume_id of this.#madeByPulls) await this.router.call('DeleteVolume', { volume_id });
    await this.routing.stop();
    await this.source.end();
    await this.target.end();
    // The cleanup of the run tries again, and reports a failure.
    await this.workspace.dispose().catch(() => undefined);
  }
}
