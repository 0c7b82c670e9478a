/**
 * One workspace and one plugin for all tests of a file, removed after them, also when the start fails. The
 * fixture of most integration tests.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, test as plainTest, type TestContext } from 'node:test';
import { runCommand } from './command.js';
import type { CsiClient } from './csi-client.js';
import { attachLoop, sparseFile } from './loops.js';
import { MIB, Orchestrator } from './orchestrator.js';
import { type AnyPlugin, Plugin, type PluginOptions } from './plugin.js';
import { loopsBelow, makePoolFileSystem, mountsBelow, type PoolKind, skipUnlessRoot, Workspace } from './workspace.js';

export interface RunningPluginOptions {
  /**
   * File systems to create, one pool each, by the pool's name; `thin`: a thin pool on its own files, `thin on 4Kn`: on
   * disks with logical sectors of 4096 bytes.
   * Without any, the embedded default pool.
   */
  pools?: Readonly<Record<string, PoolKind | 'thin' | 'thin on 4Kn'>>;
  poolSizeMiB?: number;
  env?: Record<string, string>;
  /** Called once the plugin runs, before the first test. */
  prepare?: (running: RunningPlugin) => Promise<void> | void;
}

/** What `held` is when no volume is in use. */
export const NOTHING = { mounts: [], loops: [] };

/** With a plugin of any kind; see RunningPlugin below. */
export class RunningPluginBy<P extends AnyPlugin> {
  #workspace: Workspace | undefined;
  #plugin: P | undefined;
  #options: PluginOptions = {};
  /** The mount point of each pool, or the directory of its files. */
  readonly poolPaths: Record<string, string> = {};
  readonly orchestrator = new Orchestrator({ path: (...names) => this.workspace.path(...names) }, () => this.client);

  constructor(private readonly launch: (workspace: Workspace, options: PluginOptions) => Promise<P>) {}

  get workspace(): Workspace {
    if (this.#workspace === undefined) throw new Error('no workspace before the suite starts');
    return this.#workspace;
  }

  get plugin(): P {
    if (this.#plugin === undefined) throw new Error('no plugin is running');
    return this.#plugin;
  }

  get client(): CsiClient {
    return this.plugin.client;
  }

  /** Of a command beside the plugin. */
  get settings(): Record<string, string> {
    const { pools } = this.#options;
    return {
      CSI_ENDPOINT: this.plugin.endpoint,
      BLOCKDELTA_NODE_ID: 'test-node',
      BLOCKDELTA_STATE_DIR: this.workspace.path('plugin'),
      BLOCKDELTA_RUNTIME_DIR: this.workspace.directory,
      ...(pools === undefined ? {} : { BLOCKDELTA_POOLS: pools }),
    };
  }

  /** What a command prints that must succeed. */
  async output(t: TestContext, ...args: string[]): Promise<string> {
    const { code, stdout, stderr } = await runCommand(t, args, this.settings);
    assert.equal(code, 0, stderr);
    return stdout;
  }

  /** A path inside the pool of that name. */
  poolPath(pool: string, ...names: string[]): string {
    const root = this.poolPaths[pool];
    if (root === undefined) throw new Error(`no file system was made for pool '${pool}'`);
    return join(root, ...names);
  }

  /** The mounts and loop devices of volumes: those of the pools are left out. */
  held(): { mounts: string[]; loops: string[] } {
    const pools = Object.values(this.poolPaths);
    const mounts = mountsBelow(this.workspace.directory);
    return { mounts: mounts.filter((path) => !pools.includes(path)), loops: pools.flatMap(loopsBelow).sort() };
  }

  async setUp(label: string, options: RunningPluginOptions): Promise<void> {
    this.#workspace = new Workspace(label);
    const pools: string[] = [];
    for (const [name, kind] of Object.entries(options.pools ?? {})) {
      const isThin = kind === 'thin' || kind === 'thin on 4Kn';
      const path = isThin
        ? this.#workspace.path(`${name}.thin`)
        : makePoolFileSystem(this.#workspace, kind, options.poolSizeMiB);
      this.poolPaths[name] = path;
      const disks = kind === 'thin on 4Kn' ? thinDisks(path) : '';
      pools.push(`${name}=${isThin ? 'thin:' : ''}${path}${disks}`);
    }
    this.#options = {
      ...(pools.length === 0 ? {} : { pools: pools.join(',') }),
      ...(options.env === undefined ? {} : { env: options.env }),
    };
    await this.start();
  }

  /** @param options for this time, instead of those of the file */
  async start(options = this.#options): Promise<P> {
    this.#plugin = await this.launch(this.workspace, options);
    return this.#plugin;
  }

  /** Stops the plugin with SIGTERM, does something without it, and starts it again on the same state. */
  async restart(meanwhile: () => unknown = () => undefined): Promise<P> {
    assert.equal(await this.plugin.stop(), 0);
    this.#printInternalErrors();
    await meanwhile();
    return this.start();
  }

  /** The same with SIGKILL. */
  async crash(meanwhile: () => unknown = () => undefined): Promise<P> {
    await this.plugin.kill();
    this.#printInternalErrors();
    await meanwhile();
    return this.start();
  }

  /** Kills the plugin, if there is one, and leaves its workspace. */
  async endPlugin(): Promise<void> {
    await this.#plugin?.kill();
  }

  async tearDown(): Promise<void> {
    await this.endPlugin();
    this.#printInternalErrors();
    this.#workspace?.dispose();
    this.#plugin = undefined;
    this.#workspace = undefined;
  }

  /** Prints INTERNAL errors: their cause is only in the plugin's log. */
  #printInternalErrors(): void {
    const lines = this.#plugin?.log.split('\n') ?? [];
    for (const line of lines.filter((text) => text.includes('"INTERNAL"'))) console.log(`# ${line}`);
  }
}

/** The rest of a pool's setting: its metadata and its data, on sparse files. */
function thinDisks(path: string): string {
  const disks = Object.entries({ metadata: 16 * MIB, data: 2048 * MIB }).map(([role, sizeBytes]) => {
    const file = sparseFile(`${path}.${role}`, sizeBytes);
    return `;${role}=${attachLoop(file, '--sector-size', '4096')}`;
  });
  return disks.join('');
}

/** With a process of its own. */
export class RunningPlugin extends RunningPluginBy<Plugin> {
  constructor() {
    super(Plugin.start);
  }
}

/** Registers before and after hooks for the calling file. */
export function runPlugin(label: string, options: RunningPluginOptions = {}): RunningPlugin {
  const running = new RunningPlugin();
  before(async () => {
    if (skipUnlessRoot !== false) return;
    try {
      await running.setUp(label, options);
      await options.prepare?.(running);
    } catch (thrown) {
      await running.tearDown();
      throw thrown;
    }
  });
  after(() => running.tearDown());
  return running;
}

/** A test that needs root; skipped, with the reason, without it. */
export function test(title: string, run: (context: TestContext) => Promise<void> | void): void {
  void plainTest(title, { skip: skipUnlessRoot }, run);
}
