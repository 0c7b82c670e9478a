/**
 * The plugin in a container of crun: a root file system with the packages of deploy/container/Containerfile, its entry
 * point, and the options of deploy/container/run. Options that nobody translates here are refused, so neither file
 * can get one that no test has.
 *
 * Differences from the image: Node.js is that of the test, and the plugin is the checkout's, read-only.
 */
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { packagePath } from '../../src/base/package-root.js';
import { isCapabilityHere } from './service-unit.js';
import type { Workspace } from './workspace.js';

const read = (path: string): string => readFileSync(packagePath(path), 'utf8');
const CONTAINERFILE = 'deploy/container/Containerfile';
const INSTALLED = '/opt/blockdelta/lib/node_modules/blockdelta';
/** Directories of the host in deploy/container/run that a test has below its workspace. */
const MOVED: Readonly<Record<string, string>> = {
  '/run/blockdelta': 'run',
  '/run/blockdelta-guardian': 'guardian',
  '/var/lib/blockdelta': 'state',
  '/var/lib/kubelet': 'kubelet',
};
/** Of the engine, or without a meaning for what the plugin may do. */
const IGNORED: readonly string[] = [
  'name',
  'detach',
  'restart',
  'stop-timeout',
  'env-file',
  'network',
  'cap-drop',
];

/** crun refuses machines with cgroups of both versions. */
const WITHOUT_SECOND_CGROUPS = [
  ...['unshare', '--mount', '--propagation', 'unchanged', 'sh', '-c'],
  'mount --make-private /sys/fs/cgroup && umount /sys/fs/cgroup/unified && exec "$@"',
  'sh',
];

interface Image {
  suite: string;
  packages: string[];
  command: string[];
}

/** The last stage of the Containerfile. */
export function readImage(): Image {
  const stage =
    read(CONTAINERFILE)
      .split(/^FROM /m)
      .at(-1) ?? '';
  const [, suite] = /^debian:(\w+)-slim$/m.exec(stage) ?? [];
  const [, packages] =
    /apt-get install --yes --no-install-recommends ([^\\&\n]+)/.exec(stage) ?? [];
  const list = (name: string): string[] =>
    JSON.parse(new RegExp(`^${name} (\\[.*\\])$`, 'm').exec(stage)?.[1] ?? 'null');
  if (suite === undefined || packages === undefined) {
    throw new Error(`${CONTAINERFILE} has no stage on debian:SUITE-slim with packages`);
  }
  return {
    suite,
    packages: packages.trim().split(/\s+/),
    command: [...list('ENTRYPOINT'), ...list('CMD')],
  };
}

/** The options of deploy/container/run, in their order. */
export function runOptions(): [name: string, value: string][] {
  return [...read('deploy/container/run').matchAll(/^ {2}--([\w-]+)(?:=(.*?))? \\$/gm)].map(
    ([, name = '', value = '']) => [name, value.replace(/^'(.*)'$/, '$1')],
  );
}

const optionValues = (name: string): string[] =>
  runOptions().flatMap(([found, value]) => (found === name ? [value] : []));

/** As docs/security.md writes them. */
export const containerCapabilities = (): string[] =>
  optionValues('cap-add').map((name) => `CAP_${name}`);

/**
 * A root file system with the packages of the image. Made once for each list of packages, and kept in an ignored
 * directory of the checkout.
 */
export function baseRootFileSystem(): string {
  const { suite, packages } = readImage();
  const cache = packagePath('.native-build/container');
  const key = createHash('sha256')
    .update(JSON.stringify([suite, packages]))
    .digest('hex');
  const base = join(cache, key.slice(0, 16));
  mkdirSync(cache, { recursive: true });
  const script = `
    [ -d "$1" ] && exit
    rm -rf "$1".new
    mmdebstrap --quiet --variant=minbase --include="$3" "$2" "$1".new "\${@:4}"
    mv "$1".new "$1"`;
  const sources = ['/etc/apt/sources.list', ...inDirectory('/etc/apt/sources.list.d')].filter(
    (file) => /\.(list|sources)$/.test(file) && existsSync(file),
  );
  const args = [base, suite, packages.join(','), ...sources];
  // Other tests wait for the one that makes it.
  const command = ['bash', '-euc', script, 'bash', ...args];
  execFileSync('flock', [join(cache, 'lock'), ...command], { stdio: ['ignore', 'ignore', 'pipe'] });
  return base;
}

function inDirectory(directory: string): string[] {
  return existsSync(directory) ? readdirSync(directory).map((name) => join(directory, name)) : [];
}

export class PluginContainer {
  private constructor(
    readonly process: ChildProcess,
    readonly endpoint: string,
    private readonly bundle: string,
    private readonly crun: readonly string[],
    private readonly id: string,
    private readonly output: string[],
  ) {}

  /** The workspace must be a shared mount. Does not wait until the plugin is ready. */
  static start(workspace: Workspace, env: Record<string, string> = {}): PluginContainer {
    for (const name of Object.values(MOVED)) mkdirSync(workspace.path(name), { recursive: true });
    const base = baseRootFileSystem();
    const bundle = mkdtempSync(`${base}-run-`);
    const root = join(bundle, 'rootfs');
    // Hard links: the runtime makes mount points in the root directory.
    execFileSync('cp', ['--archive', '--link', base, root]);
    installPlugin(root);
    const endpoint = `unix://${workspace.path('run', 'csi.sock')}`;
    const settings = {
      PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
      CSI_ENDPOINT: endpoint,
      BLOCKDELTA_STATE_DIR: workspace.path('state'),
      BLOCKDELTA_NODE_ID: 'test-node',
      BLOCKDELTA_EMBEDDED_POOL_SIZE: '2Gi',
      ...env,
    };
    writeFileSync(join(bundle, 'config.json'), JSON.stringify(runtimeConfig(workspace, settings)));
    const crun = [
      ...(hasOneCgroupVersion() ? [] : WITHOUT_SECOND_CGROUPS),
      ...['crun', '--root', workspace.path('crun'), '--cgroup-manager=cgroupfs'],
    ];
    const id = workspace.directory.split('/').at(-1) ?? 'blockdelta';
    const [program = '', ...options] = crun;
    const child = spawn(program, [...options, 'run', '--bundle', bundle, id], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const output: string[] = [];
    child.stdout?.on('data', (data: Buffer) => output.push(data.toString()));
    child.stderr?.on('data', (data: Buffer) => output.push(data.toString()));
    return new PluginContainer(child, endpoint, bundle, crun, id, output);
  }

  get log(): string {
    return this.output.join('');
  }

  /** SIGTERM to the first process, as an engine does it, and the container's exit code. */
  async stop(): Promise<number | null> {
    return this.#end('TERM');
  }

  /** Ends the container and removes what it leaves. */
  async dispose(): Promise<void> {
    await this.#end('KILL');
    this.#run('delete', '--force', this.id);
    rmSync(this.bundle, { recursive: true, force: true });
  }

  async #end(signal: string): Promise<number | null> {
    const { process: child } = this;
    if (child.exitCode === null && child.signalCode === null) {
      const ended = once(child, 'exit');
      this.#run('kill', this.id, signal);
      // A runtime that has not made its container yet knows nothing to kill.
      if (signal === 'KILL') child.kill('SIGKILL');
      await ended;
    }
    return child.exitCode;
  }

  #run(...args: string[]): void {
    const [program = '', ...options] = this.crun;
    spawnSync(program, [...options, ...args], { stdio: 'ignore' });
  }
}

function hasOneCgroupVersion(): boolean {
  const lines = readFileSync('/proc/self/cgroup', 'utf8').trim().split('\n');
  const ofSecond = lines.filter((line) => line.startsWith('0::'));
  return ofSecond.length === 0 || ofSecond.length === lines.length;
}

/** What `npm install --global --prefix /opt/blockdelta` makes, but for the package itself, which is bound. */
function installPlugin(root: string): void {
  mkdirSync(join(root, 'opt/blockdelta/bin'), { recursive: true });
  const program = join(root, 'opt/blockdelta/bin/blockdelta');
  writeFileSync(program, `#!/bin/sh\nexec node ${INSTALLED}/.test-build/program/main.js "$@"\n`);
  chmodSync(program, 0o755);
}

/** The configuration that an engine makes of the options, by the specification of OCI runtimes. */
function runtimeConfig(workspace: Workspace, env: Record<string, string>): object {
  const capabilities = containerCapabilities().filter((name) =>
    isCapabilityHere(name.slice('CAP_'.length).toLowerCase()),
  );
  const mounts: object[] = [
    { destination: '/proc', type: 'proc', source: 'proc', options: ['nosuid', 'noexec', 'nodev'] },
    bind(process.execPath, '/usr/local/bin/node', ['ro']),
    bind(packagePath('.'), INSTALLED, ['ro']),
  ];
  const devices: object[] = [{ allow: false, access: 'rwm' }];
  for (const [minor, major] of [3, 5, 7, 8, 9].map((each) => [each, 1])) {
    devices.push({ allow: true, type: 'c', major, minor, access: 'rwm' });
  }
  let noNewPrivileges = false;
  let readonly = false;
  for (const [name, value] of runOptions()) {
    if (name === 'volume') {
      const [source = '', , propagation = 'rprivate'] = value.split(':');
      const moved = MOVED[source];
      const place = moved === undefined ? source : workspace.path(moved);
      mounts.push(bind(place, place, ['rw', propagation]));
    } else if (name === 'device-cgroup-rule') {
      devices.push(deviceRule(value));
    } else if (name === 'security-opt') {
      noNewPrivileges ||= value === 'no-new-privileges';
    } else if (name === 'read-only') {
      readonly = true;
    } else if (name !== 'cap-add' && !IGNORED.includes(name)) {
      throw new Error(`no test applies the option --${name} of deploy/container/run`);
    }
  }
  return {
    ociVersion: '1.0.2',
    root: { path: 'rootfs', readonly },
    process: {
      cwd: '/',
      args: readImage().command,
      env: Object.entries(env).map(([name, value]) => `${name}=${value}`),
      user: { uid: 0, gid: 0 },
      noNewPrivileges,
      capabilities: { bounding: capabilities, effective: capabilities, permitted: capabilities },
    },
    mounts,
    linux: {
      // --network=host: no namespace of the network.
      namespaces: ['pid', 'mount', 'ipc', 'uts'].map((type) => ({ type })),
      // As an engine sets it if a volume is shared.
      rootfsPropagation: 'shared',
      resources: { devices },
    },
  };
}

function bind(source: string, destination: string, options: readonly string[]): object {
  return { destination, source, type: 'bind', options: ['rbind', ...options] };
}

/** `b 7:* rwm` */
function deviceRule(rule: string): object {
  const [type, numbers = '', access] = rule.split(' ');
  const [major, minor] = numbers.split(':');
  return {
    allow: true,
    type,
    access,
    major: Number(major),
    ...(minor === '*' ? {} : { minor: Number(minor) }),
  };
}
