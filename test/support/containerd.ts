/**
 * A containerd of one test, as a kubelet's node has it, of Debian's package: in the PATH, or where scripts/setup
 * --packages extracts it without installing a service. Without CRI, which Debian has no client for.
 */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { packagePath } from '../../src/base/package-root.js';
import { aroundEngines } from './container.js';
import type { Workspace } from './workspace.js';

const PATH = `${process.env['PATH']}:${packagePath('.native-build/containerd/usr/bin')}`;
const env = { ...process.env, PATH };

export class Containerd {
  private constructor(
    private readonly socket: string,
    readonly stop: () => Promise<void>,
  ) {}

  /** Resolves when it answers. */
  static async start(workspace: Workspace): Promise<Containerd> {
    const socket = workspace.path('containerd.sock');
    const file = workspace.path('containerd.toml');
    const places = ['root', 'state'].map((name) => `${name} = "${workspace.path(name)}"\n`);
    const rest = 'disabled_plugins = ["io.containerd.grpc.v1.cri"]\n[grpc]\n';
    writeFileSync(file, `version = 2\n${places.join('')}${rest}address = "${socket}"\n`);
    const command = `${aroundEngines()} containerd --config ${file}`;
    const child = spawn('sh', ['-c', `exec ${command}`], { env, stdio: ['ignore', 'ignore', 'pipe'] });
    let log = '';
    const answers = new Promise<void>((resolve, reject) => {
      child.stderr.on('data', (text) => {
        log += text;
        if (log.includes('successfully booted')) resolve();
      });
      child.once('exit', () => reject(new Error(`containerd has ended: ${log}`)));
    });
    await answers;
    return new Containerd(socket, async () => {
      child.kill();
      if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
    });
  }

  /** Of a node's kubelet. Returns what it prints. */
  ctr(...args: string[]): string {
    const place = ['--address', this.socket, '--namespace', 'k8s.io'];
    return execFileSync('ctr', [...place, ...args], { env, encoding: 'utf8' });
  }
}
