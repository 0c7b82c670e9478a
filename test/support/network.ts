/**
 * Network namespaces, connected by Ethernet cables to one switch, as hosts of a cluster. Each is held by a
 * process and goes with it, so nothing stays behind. Needs root, and touches no network of the host.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { end } from './child-processes.js';

const SWITCH = 0;

export class TestNetwork {
  /** The first one has the switch; the others are the hosts. */
  readonly #holders: ChildProcess[] = [];

  static async create(hosts: number): Promise<TestNetwork> {
    const network = new TestNetwork();
    try {
      for (let index = 0; index <= hosts; index += 1) network.#holders.push(await holdNamespace());
      network.#ip(SWITCH, 'link', 'add', 'switch', 'type', 'bridge');
      network.#ip(SWITCH, 'addr', 'add', '10.99.0.254/24', 'dev', 'switch');
      network.#ip(SWITCH, 'link', 'set', 'switch', 'up');
      for (let host = 1; host <= hosts; host += 1) network.#connect(host);
    } catch (thrown) {
      await network.dispose();
      throw thrown;
    }
    return network;
  }

  /** Of a host, from 1 on. */
  address(host: number): string {
    return `10.99.0.${host}`;
  }

  /** What executes a program on a host, or, for 0, at the switch. */
  on(host: number): string[] {
    return ['nsenter', `--net=/proc/${this.#pid(host)}/ns/net`, '--'];
  }

  /** Pulls the cable of a host: nothing is answered any more, and nothing is refused either. */
  cut(host: number): void {
    this.#ip(SWITCH, 'link', 'set', `host${host}`, 'down');
  }

  join(host: number): void {
    this.#ip(SWITCH, 'link', 'set', `host${host}`, 'up');
  }

  async dispose(): Promise<void> {
    for (const holder of this.#holders) await end(holder);
  }

  #connect(host: number): void {
    const cable = `host${host}`;
    const netns = String(this.#pid(host));
    this.#ip(SWITCH, 'link', 'add', cable, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', netns);
    this.#ip(SWITCH, 'link', 'set', cable, 'master', 'switch');
    this.#ip(SWITCH, 'link', 'set', cable, 'up');
    this.#ip(host, 'addr', 'add', `${this.address(host)}/24`, 'dev', 'eth0');
    this.#ip(host, 'link', 'set', 'eth0', 'up');
    this.#ip(host, 'link', 'set', 'lo', 'up');
  }

  #pid(host: number): number {
    return this.#holders[host]?.pid ?? 0;
  }

  #ip(host: number, ...args: string[]): void {
    const [program = '', ...rest] = [...this.on(host), 'ip', ...args];
    execFileSync(program, rest, { stdio: ['ignore', 'ignore', 'pipe'] });
  }
}

async function holdNamespace(): Promise<ChildProcess> {
  const child = spawn(
    'unshare',
    ['--net', '--', 'setpriv', '--pdeathsig', 'KILL', 'sh', '-c', 'echo held; exec sleep 3600'],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  );
  await once(child.stdout, 'data');
  return child;
}
