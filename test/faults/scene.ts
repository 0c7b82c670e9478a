/**
 * A plugin with a pool whose steps are counted, killed and failed, the objects that live through all of that,
 * and what must be true after each fault whatever the operation was.
 *
 * Background work that would differ from run to run is off unless the scene is about it: change lists and
 * retained bases by settings. The catalogue is backed up at the start only, which `start` waits for; what watches the pool's space (the guard of low space, the growth of an embedded image) takes no step
 * while there is enough, and an embedded pool has grown before.
 */
import assert from 'node:assert/strict';
import { existsSync, readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { killChildren } from '../support/child-processes.js';
import { type Contents, emptyContents, specOf, type VolumeKind, writeDurably } from '../support/contents.js';
import { CsiClient } from '../support/csi-client.js';
import { backingOf } from '../support/loops.js';
import { type HeldVolume, Orchestrator, type VolumeSpec } from '../support/orchestrator.js';
import { Plugin, type PluginOptions } from '../support/plugin.js';
import { logLines, startCompleted, startReport } from '../support/plugin-log.js';
import { seededRandom } from '../support/random.js';
import { metricsAddressOf } from '../support/scraped-plugin.js';
import { loopsBelow, makePoolFileSystem, mountsBelow, Workspace } from '../support/workspace.js';
import { KnownObjects } from './known-objects.js';
import { buildPreload, type Roots, Steps } from './steps.js';

export type PoolKind = 'xfs' | 'btrfs' | 'embedded';
export const POOL_KINDS: readonly PoolKind[] = ['xfs', 'btrfs', 'embedded'];

/** After this a write counts as blocked permanently, so that a failing test ends. */
const NEVER_MS = 60_000;
/** What is taken down lazily by the kernel, such as a loop device that a killed tool had open, has so long. */
const SETTLED_MS = 20_000;

/** The file of a resident that is written again after each fault. */
const WRITTEN = 'written-after-each-fault';

/** A volume in use; a resident stays published while others are worked on. */
export interface Resident {
  kind: VolumeKind;
  volume: HeldVolume;
  contents: Contents;
  /** Resolves when its own writer has gone on. Fails if it cannot. */
  goOn?(): Promise<void>;
}

export class Scene {
  readonly random = seededRandom('faults');
  readonly orchestrator: Orchestrator;
  readonly objects: KnownObjects;
  readonly residents: Resident[] = [];
  #plugin: Plugin | undefined;
  #client: CsiClient | undefined;
  readonly #ends: (() => Promise<void>)[] = [];
  /** Those that were made for attempts and residents, with their paths. */
  readonly #volumes = new Map<string, HeldVolume>();
  #names = 0;
  #state = 'plugin';

  private constructor(
    readonly workspace: Workspace,
    /** Where the plugin stages for callers of CSI 0.1: it accepts no directory beside its socket. */
    readonly staging: Workspace,
    readonly kind: PoolKind,
    readonly steps: Steps,
    /** Of commands that run beside the plugin. */
    readonly commandSteps: Steps,
    private readonly options: PluginOptions,
    /** The directory with volumes/ and snapshots/. */
    readonly poolPath: string,
  ) {
    this.orchestrator = new Orchestrator(workspace, () => this.client);
    this.objects = new KnownObjects(this.orchestrator, poolPath);
  }

  static async make(
    label: string,
    kind: PoolKind,
    env: Record<string, string> = {},
    /** A program, with its arguments, that executes the plugin. */
    by: readonly string[] = [],
  ): Promise<Scene> {
    buildPreload();
    const workspace = new Workspace(label);
    const staging = new Workspace(`${label}-staging`);
    const isEmbedded = kind === 'embedded';
    const pool = isEmbedded ? embeddedPool(workspace, 'plugin') : makePoolFileSystem(workspace, kind, 6144);
    const roots = { staging: staging.directory, ...rootsOf(workspace, 'plugin', pool) };
    const steps = await Steps.listen(workspace.path('steps'), roots);
    const commandSteps = await Steps.listen(workspace.path('command-steps'), {
      runtime: workspace.path('runtime'),
      backups: workspace.path('backups'),
      ...roots,
    });
    const options = {
      ...(isEmbedded ? {} : { pools: `main=${pool}` }),
      env: {
        BLOCKDELTA_CONTROLLER_PUBLISH: 'on',
        BLOCKDELTA_CHANGE_LISTS: 'off',
        BLOCKDELTA_RETAINED_BASES_COUNT: '0',
        BLOCKDELTA_LEGACY_STAGING_DIR: staging.directory,
        ...env,
      },
      by: [...by, ...steps.command],
    };
    return new Scene(workspace, staging, kind, steps, commandSteps, options, pool);
  }

  get client(): CsiClient {
    if (this.#client === undefined) throw new Error('no plugin is running');
    return this.#client;
  }

  get isRunning(): boolean {
    const child = this.#plugin?.process;
    return child !== undefined && child.exitCode === null && child.signalCode === null;
  }

  /** The next starts are on that state directory; of an embedded pool, which lies in it. */
  useState(name: string): void {
    this.#state = name;
    this.steps.rename(rootsOf(this.workspace, name, embeddedPool(this.workspace, name)));
  }

  /** Fails unless the plugin becomes ready, and finds no difference between its catalogue and its pool. */
  async start(): Promise<void> {
    const plugin = Plugin.launch(this.workspace, { ...this.options, name: this.#state });
    this.#plugin = plugin;
    this.#client = plugin.client;
    await plugin.ready();
    await startCompleted(
      () => plugin.log,
      () => !this.isRunning,
    );
    if (!this.isRunning) throw new Error(`it ended in its start:\n${plugin.log}`);
    assert.deepEqual(startReport(plugin.log).differences, [], 'the catalogue and the pool agree');
  }

  /** A connection of its own: one that is made again waits before it looks at the socket. */
  async probeAnew(): Promise<unknown> {
    const client = new CsiClient(this.#plugin?.endpoint ?? '');
    try {
      return await client.identity.Probe({});
    } finally {
      client.close();
    }
  }

  get metricsUrl(): string {
    return `http://${metricsAddressOf(this.#plugin?.log ?? '')}/metrics`;
  }

  /** What the process has logged as a defect of its own. */
  get defects(): readonly unknown[] {
    const lines = logLines(this.#plugin?.log ?? '');
    return lines.filter(({ level }) => level === 'error' || level === 'fatal');
  }

  /** The process that was started runs, and has found no defect. */
  assertLives(): void {
    assert.ok(this.isRunning, this.#plugin?.log);
    assert.deepEqual(this.defects, []);
  }

  /** The process that freezes file systems for the plugin, if it runs. */
  killGuardian(): void {
    killChildren(this.#plugin?.process, 'blockdelta-guardian');
  }

  /** kill -9, if it still runs; resolves when it has ended. */
  async kill(): Promise<void> {
    this.#closeClients();
    await this.#plugin?.kill();
  }

  async stop(): Promise<void> {
    this.#closeClients();
    this.#plugin?.process.kill('SIGTERM');
    assert.equal(await this.#plugin?.exitCode(), 0, this.#plugin?.log);
  }

  /** Ends a process of the scene, which may have failed. */
  atEnd(end: () => Promise<void>): void {
    this.#ends.push(end);
  }

  async dispose(): Promise<void> {
    for (const end of this.#ends) await end();
    await this.kill();
    await this.steps.close();
    await this.commandSteps.close();
    this.staging.dispose();
    this.workspace.dispose();
  }

  #closeClients(): void {
    this.#client?.close();
    this.#client = undefined;
  }

  name(kind: string): string {
    this.#names += 1;
    return `${kind} ${this.#names}`;
  }

  /** A new volume, known from now on. */
  async volume(kind: VolumeKind, source: VolumeSpec = {}): Promise<HeldVolume> {
    const spec = { ...specOf(kind), ...source };
    return this.keep(await this.orchestrator.create(this.name('volume'), spec));
  }

  /** One that an attempt has made. */
  keep(volume: HeldVolume): HeldVolume {
    this.objects.add(volume.id);
    this.#volumes.set(volume.id, volume);
    return volume;
  }

  /** Published and written to. */
  async used(kind: VolumeKind): Promise<Resident> {
    const volume = await this.volume(kind);
    const contents = emptyContents(kind);
    await contents.work(await this.orchestrator.bringUp(volume), this.random);
    return { kind, volume, contents };
  }

  /** And so from now on. */
  async settle(kind: VolumeKind): Promise<void> {
    const resident = await this.used(kind);
    if (kind !== 'block') await writeAgain(resident.volume);
    this.residents.push(resident);
  }

  /** The first one of that kind. */
  resident(kind: VolumeKind): Resident {
    const found = this.residents.find((resident) => resident.kind === kind);
    if (found === undefined) throw new Error(`no ${kind} volume was settled`);
    return found;
  }

  /** Makes a volume and deletes it. */
  async makeAndDelete(source: VolumeSpec = {}): Promise<void> {
    const volume = await this.volume('block', source);
    await this.orchestrator.delete(volume);
    this.objects.remove(volume.id);
  }

  async snapshot(volume: HeldVolume): Promise<string> {
    const id = await this.orchestrator.snapshot(volume, this.name('snapshot'));
    this.objects.add(id);
    return id;
  }

  async deleteSnapshot(id: string): Promise<void> {
    await this.orchestrator.deleteSnapshot(id);
    this.objects.remove(id);
  }

  /** Deletes the known objects beside these. Volumes in use are taken down. */
  async removeAllBut(kept: readonly string[]): Promise<void> {
    const others = this.objects.ids.filter((id) => !kept.includes(id));
    for (const id of others.filter((id) => !this.#volumes.has(id))) await this.deleteSnapshot(id);
    for (const volume of others.flatMap((id) => this.#volumes.get(id) ?? [])) {
      await this.orchestrator.takeDown(volume);
      await this.orchestrator.delete(volume);
      this.objects.remove(volume.id);
    }
  }

  /** The volume can be brought up and has these contents; it is taken down again. */
  async verifyUnused(volume: HeldVolume, contents: Contents): Promise<void> {
    await contents.verify(await this.orchestrator.bringUp(volume));
    await this.orchestrator.takeDown(volume);
  }

  /** Writes to all residents go through: nothing is frozen. */
  async writesGoThrough(): Promise<void> {
    for (const { kind, volume, goOn } of this.residents) {
      await goOn?.();
      if (kind === 'block') continue;
      const isWritten = writeAgain(volume).then(() => true);
      const inTime = await Promise.race([isWritten, delay(NEVER_MS, false, { ref: false })]);
      assert.ok(inTime, `${volume.targetPath} stays frozen`);
    }
  }

  async verifyResidents(): Promise<void> {
    for (const { contents, volume } of this.residents) await contents.verify(volume.targetPath);
  }

  /** What an operation must leave as it was: devices, mounts, files of the pool and of the state. */
  held(): Record<string, string[]> {
    return {
      loops: loopsBelow(this.workspace.directory)
        .map((device) => backingOf(device) ?? '')
        .sort(),
      mounts: mountsBelow(this.workspace.directory).sort(),
      // Made when they are needed first, or kept for a while.
      pool: filesBelow(this.poolPath).filter((name) => !/^(lists|bases)$|\.replica$/.test(name)),
      state: filesBelow(this.workspace.path('plugin')).filter((name) => !name.startsWith('pools')),
      // The directories above a target are the orchestrator's, and what a volume holds its users'.
      targets: filesBelow(this.workspace.path('pods')).filter((name) => name.endsWith('/volume')),
    };
  }

  /** Waits, since some devices go when their last user ends. */
  async assertHolds(wanted: Record<string, string[]>): Promise<void> {
    const deadline = Date.now() + SETTLED_MS;
    while (!isDeepStrictEqual(this.held(), wanted) && Date.now() < deadline) await delay(20);
    assert.deepEqual(this.held(), wanted, 'left behind, or gone');
  }
}

/** The roots of the names of steps, the innermost first. The image of an embedded pool lies beside its mount. */
function rootsOf(workspace: Workspace, stateName: string, pool: string): Roots {
  const state = workspace.path(stateName);
  const host = pool.startsWith(`${state}/`) ? { host: dirname(pool) } : {};
  return { pool, ...host, state, work: workspace.directory };
}

/** The mount point of a pool in that state directory. */
function embeddedPool(workspace: Workspace, state: string): string {
  return workspace.path(state, 'pools', 'default', 'mount');
}

const writeAgain = ({ targetPath }: HeldVolume): Promise<void> =>
  writeDurably(join(targetPath, WRITTEN), 'w', (file) => file.write('written'));

/** Sorted; how many backups of the catalogue there are does not matter. */
function filesBelow(directory: string): string[] {
  if (!existsSync(directory)) return [];
  const names = readdirSync(directory, { recursive: true, encoding: 'utf8' });
  return [...new Set(names.map((name) => name.replace(/\d{8}T\d{9}Z/, '<time>')))].sort();
}
