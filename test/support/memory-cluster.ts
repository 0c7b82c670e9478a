/**
 * Three plugins in this process, on pools in memory, and a router in front of them over TCP on the loopback
 * interface: for the rules of routing. Needs no root.
 */
import { renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { formatHostPort } from '../../src/base/settings/tls.js';
import { Authority, tlsSettings } from './certificates.js';
import type { CsiClient } from './csi-client.js';
import { loopbackAddress } from './loopback.js';
import { MemoryPlugin, type MemoryPluginOptions } from './memory-plugin.js';
import { startRouter } from './router-here.js';
import { temporaryDirectory } from './temporary.js';

export interface ClusterNode {
  readonly id: string;
  readonly address: string;
  readonly plugin: MemoryPlugin;
}

export class MemoryCluster {
  readonly directory = temporaryDirectory();
  readonly nodes: ClusterNode[] = [];
  /** What the router's clock shows, in milliseconds. It stands still but for the test. */
  clock = 0;
  readonly #authority: Authority;
  #router: Awaited<ReturnType<typeof startRouter>> | undefined;

  constructor(options: Pick<MemoryPluginOptions, 'servesRouters'>) {
    this.#authority = new Authority(this.directory);
    for (const id of ['node-a', 'node-b', 'node-c']) {
      const address = formatHostPort(loopbackAddress());
      const own = { BLOCKDELTA_NODE_ID: id, BLOCKDELTA_LISTEN_ADDRESS: address };
      const files = this.#authority.issueNode(id, id);
      const plugin = new MemoryPlugin({ ...options, env: { ...own, ...tlsSettings(files) } });
      this.nodes.push({ id, address, plugin });
    }
  }

  /** Of the router. */
  get client(): CsiClient {
    if (this.#router === undefined) throw new Error('the cluster has not been started');
    return this.#router.client;
  }

  get endpoint(): string {
    return `unix://${join(this.directory, 'router.sock')}`;
  }

  /** The router's log. */
  get log(): string {
    return this.#router?.log() ?? '';
  }

  /** As the router counts them. */
  get duplicateVolumes(): number {
    return this.#router?.duplicates() ?? 0;
  }

  node(index: number): ClusterNode {
    const node = this.nodes[index];
    if (node === undefined) throw new Error(`there is no node ${index}`);
    return node;
  }

  /** Replaces the list as an operator does, by a rename. */
  list(nodes: readonly { id: string; address: string }[]): void {
    const entries = nodes.map(({ id, address }) => ({ id, address }));
    this.writeList(JSON.stringify({ nodes: entries }));
  }

  writeList(text: string): void {
    const file = join(this.directory, 'nodes.json');
    writeFileSync(`${file}.new`, text);
    renameSync(`${file}.new`, file);
  }

  async start(): Promise<void> {
    for (const { plugin } of this.nodes) await plugin.start();
    this.list(this.nodes);
    const env = {
      BLOCKDELTA_ROUTE_NODES: `file:${join(this.directory, 'nodes.json')}`,
      ...tlsSettings(this.#authority.issue('router', 'blockdelta-router')),
    };
    this.#router = await startRouter(this.endpoint, env, () => this.clock);
    while (!(await this.client.identity.Probe({}))['ready'].value) await delay(10);
  }

  async tearDown(): Promise<void> {
    await this.#router?.close();
    for (const { plugin } of this.nodes) await plugin.stop();
  }
}

/** Registers the hooks for the tests of the calling file. */
export function runMemoryCluster(options: Pick<MemoryPluginOptions, 'servesRouters'> = {}): MemoryCluster {
  const cluster = new MemoryCluster(options);
  before(async () => {
    try {
      await cluster.start();
    } catch (thrown) {
      await cluster.tearDown();
      throw thrown;
    }
  });
  after(() => cluster.tearDown());
  return cluster;
}
