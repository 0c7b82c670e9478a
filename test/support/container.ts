/**
 * The plugin in a container of podman: the image that scripts/build-image makes of the checkout, under the options of
 * deploy/container/run. The directories that it shares with the host lie in the test's workspace.
 *
 * BLOCKDELTA_TEST_IMAGE=FILE.tar takes an archive instead, such as that of a release.
 */
import { execFile, execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { copyCheckout } from './checkout-copy.js';
import { checkoutText } from './checkout-text.js';
import { isCapabilityHere } from './service-unit.js';
import { Workspace } from './workspace.js';

/** Directories of the host in deploy/container/run that a test has below its workspace. */
const MOVED: Readonly<Record<string, string>> = {
  '/run/blockdelta': 'run',
  '/run/blockdelta-guardian': 'guardian',
  '/var/lib/blockdelta': 'state',
  '/var/lib/kubelet': 'kubelet',
};

const WITHOUT_SECOND_CGROUPS =
  'unshare --mount --propagation unchanged sh -c \'mount --make-private /sys/fs/cgroup && umount /sys/fs/cgroup/unified && exec "$@"\' sh';

/** The options of a script in deploy/container, in their order. */
function runOptions(script: 'run' | 'run-guardian'): [name: string, value: string][] {
  const text = checkoutText(`deploy/container/${script}`);
  return [...text.matchAll(/^ {2}--([\w-]+)(?:=(.*?))? \\$/gm)].map(([, name = '', value = '']) => [
    name,
    value.replace(/^'(.*)'$/, '$1'),
  ]);
}

/** The words before a command that starts containers: crun refuses machines with cgroups of both versions. */
export const aroundEngines = (): string => (hasOneCgroupVersion() ? '' : WITHOUT_SECOND_CGROUPS);

/** As docs/security.md writes them. */
export const containerCapabilities = (): string[] =>
  runOptions('run').flatMap(([name, value]) => (name === 'cap-add' ? [`CAP_${value}`] : []));

/** podman with a storage of its own. */
export class ContainerEngine {
  readonly #workspace = new Workspace('engine');
  readonly program = this.#workspace.path('podman');

  constructor() {
    const place = (name: string): string => this.#workspace.path(name);
    const storage = `--root ${place('root')} --runroot ${place('run')} --tmpdir ${place('tmp')}`;
    // Where there is no service manager, and without mounts that outlive a command.
    const options = '--storage-driver vfs --cgroup-manager cgroupfs --events-backend file';
    writeFileSync(this.program, `#!/bin/sh\nexec ${aroundEngines()} podman ${storage} ${options} "$@"\n`);
    chmodSync(this.program, 0o755);
  }

  /** The image's file. */
  readonly archive = process.env['BLOCKDELTA_TEST_IMAGE'] ?? buildImage(this.#workspace);

  /** Loads the image, as docs/install-container.md does it. Resolves to its name. */
  async loadImage(): Promise<string> {
    const { archive } = this;
    const printed = await this.run('load', '--input', archive);
    const [, name] = /^Loaded image: (\S+)$/m.exec(printed) ?? [];
    if (name === undefined) throw new Error(`podman load names no image of ${archive}: ${printed}`);
    return name;
  }

  /** Resolves to what it prints. */
  async run(...args: string[]): Promise<string> {
    const { stdout } = await promisify(execFile)(this.program, args);
    return stdout;
  }

  removeContainers(): void {
    spawnSync(this.program, ['rm', '--all', '--force', '--time', '0'], { stdio: 'ignore' });
  }

  dispose(): void {
    this.removeContainers();
    this.#workspace.dispose();
  }
}

function buildImage(workspace: Workspace): string {
  const checkout = workspace.path('checkout');
  copyCheckout(checkout);
  const out = workspace.path('image');
  execFileSync(join(checkout, 'scripts/build-image'), ['--out', out], { stdio: 'inherit' });
  const archive = readdirSync(out).find((name) => name.endsWith('.tar')) ?? '';
  return join(out, archive);
}

function hasOneCgroupVersion(): boolean {
  const lines = readFileSync('/proc/self/cgroup', 'utf8').trim().split('\n');
  const ofSecond = lines.filter((line) => line.startsWith('0::'));
  return ofSecond.length === 0 || ofSecond.length === lines.length;
}

export class PluginContainer {
  private constructor(
    private readonly engine: ContainerEngine,
    readonly endpoint: string,
    private readonly id: string,
  ) {}

  /** The guardian that the plugins of this workspace use, in a container of its own. */
  static async startGuardian(engine: ContainerEngine, image: string, workspace: Workspace): Promise<void> {
    mkdirSync(workspace.path('guardian'));
    const options = runOptions('run-guardian').flatMap(([name, value]) => optionHere(name, value, workspace));
    await engine.run('run', ...options, ...limitsHere(), image, '--listen', guardianSocket(workspace));
  }

  /** The workspace must be a shared mount. Does not wait until the plugin is ready. */
  static async start(engine: ContainerEngine, image: string, workspace: Workspace): Promise<PluginContainer> {
    for (const name of Object.values(MOVED)) mkdirSync(workspace.path(name), { recursive: true });
    const endpoint = `unix://${workspace.path('run', 'csi.sock')}`;
    const settings = {
      CSI_ENDPOINT: endpoint,
      BLOCKDELTA_STATE_DIR: workspace.path('state'),
      BLOCKDELTA_NODE_ID: 'test-node',
      BLOCKDELTA_EMBEDDED_POOL_SIZE: '2Gi',
      BLOCKDELTA_GUARDIAN_SOCKET: guardianSocket(workspace),
    };
    const lines = Object.entries(settings).map(([name, value]) => `${name}=${value}\n`);
    writeFileSync(workspace.path('blockdelta.env'), lines.join(''));
    const options = runOptions('run').flatMap(([name, value]) => optionHere(name, value, workspace));
    const id = await engine.run('run', ...options, ...limitsHere(), image);
    return new PluginContainer(engine, endpoint, id.trim());
  }

  /** The plugin's log is what it writes to its standard error. */
  get log(): string {
    const command = `'${this.engine.program}' logs ${this.id} 2>&1`;
    return spawnSync('sh', ['-c', command], { encoding: 'utf8' }).stdout;
  }

  async isRunning(): Promise<boolean> {
    return (await this.#state('Running')) === 'true';
  }

  /** Resolves to what a shell in the container prints. */
  async shell(script: string): Promise<string> {
    return this.engine.run('exec', this.id, 'sh', '-c', script);
  }

  /** SIGTERM to the first process. Resolves to the container's exit code. */
  async stop(): Promise<number> {
    await this.engine.run('stop', this.id);
    return Number(await this.#state('ExitCode'));
  }

  /** Every process of it. */
  async kill(): Promise<void> {
    await this.engine.run('kill', this.id);
    await this.engine.run('wait', this.id);
  }

  /** Once it has ended. */
  async startAgain(): Promise<void> {
    await this.engine.run('start', this.id);
  }

  /** Its name is free afterwards. */
  async remove(): Promise<void> {
    await this.engine.run('rm', '--force', '--time', '0', this.id);
  }

  async #state(name: string): Promise<string> {
    const found = await this.engine.run('inspect', '--format', `{{.State.${name}}}`, this.id);
    return found.trim();
  }
}

const guardianSocket = (workspace: Workspace): string => workspace.path('guardian', 'guardian.sock');

/** An option of a script in deploy/container, with its directories in the workspace. */
function optionHere(name: string, value: string, workspace: Workspace): string[] {
  if (name === 'cap-add' && !isCapabilityHere(value.toLowerCase())) return [];
  if (name === 'env-file') return [`--env-file=${workspace.path('blockdelta.env')}`];
  if (name === 'volume') {
    const [source = '', , ...rest] = value.split(':');
    const moved = MOVED[source];
    const place = moved === undefined ? source : workspace.path(moved);
    return [`--volume=${[place, place, ...rest].join(':')}`];
  }
  return [value === '' ? `--${name}` : `--${name}=${value}`];
}

/** podman raises limits for root, which needs a right that not every machine gives. */
function limitsHere(): string[] {
  if (isCapabilityHere('sys_resource')) return [];
  const script = 'echo $(ulimit -Hn) $(ulimit -Hu)';
  const words = execFileSync('bash', ['-c', script], { encoding: 'utf8' }).trim().split(' ');
  const [files = 0, processes = 0] = words.map(Number);
  // podman lowers its own limit of processes to that figure.
  const nproc = Math.min(processes, 32_768);
  return [`--ulimit=nofile=${files}:${files}`, `--ulimit=nproc=${nproc}:${nproc}`];
}
