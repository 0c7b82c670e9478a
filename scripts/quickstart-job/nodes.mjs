/**
 * Two nodes and their router on one machine: plugins in network namespaces of their own, connected by Ethernet cables to a
 * switch, and the router where the switch is. Only the network is apart: they share the mounts and devices of the machine.
 */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readFile, realpath, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { mountsBelow } from './clean-up.mjs';
import { startPlugin, startService } from './services.mjs';
import { detail, throwIfInterrupted } from './steps.mjs';

const run = promisify(execFile);

const NAMES = ['a', 'b'];
const PORT = 9810;
const TRANSFER_PORTS = '10900-10903';
const addressOf = (name) => `10.99.0.${NAMES.indexOf(name) + 1}`;
const SWITCH_ADDRESS = '10.99.0.254';
/** Ten a second. */
const UNMOUNT_ATTEMPTS = 300;

/**
 * Resolves, when all are ready, to the router and the nodes by their names. The client `csi` of a node calls the router for the
 * controller and the node for itself, as sidecars and kubelet do.
 */
export async function startNodes(session) {
  const certify = await makeAuthority(session);
  const network = new Network();
  session.undo.push(async () => network.release());
  await network.connect();
  const plugins = [];
  for (const name of NAMES) plugins.push(await startNode(session, network, certify, name));
  const router = await startRouter(session, network, certify);
  const nodes = plugins.map((plugin) => ({ ...plugin, csi: router.csi.withNode(plugin.csi) }));
  return { router, ...Object.fromEntries(nodes.map((node) => [node.name, node])) };
}

/** Takes the node away as a power cut does: its process, what it has mounted and attached, and its pool. Its disk stays. */
export async function loseNode(session, { name, child }) {
  const { place, published } = session;
  child.kill('SIGKILL');
  await once(child, 'exit');
  const own = published.filter(({ node }) => node === name);
  session.published = published.filter(({ node }) => node !== name);
  for (const path of [...own.map(({ target }) => target), ...own.map(({ staged }) => staged)]) await run('umount', [path]);
  const directory = await realpath(join(place, name));
  const { stdout } = await run('losetup', ['--noheadings', '--output', 'NAME,BACK-FILE', '--list']);
  const loops = stdout.split('\n').map((line) => line.split(/ +/)).filter(([, file = '']) => file.startsWith(`${directory}/`));
  for (const [loop] of loops) {
    // The kernel keeps this for whoever attaches the number next.
    await run('blockdev', ['--setrw', loop]);
    // The one that holds the pool goes when that is unmounted.
    await run('losetup', ['--detach', loop]);
  }
  for (const path of (await mountsBelow(directory)).reverse()) await unmount(path);
}

/** Another process that looks at all loop devices keeps one attached for a moment, and its pool busy. */
async function unmount(path) {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await run('umount', [path]);
    } catch (error) {
      if (attempt === UNMOUNT_ATTEMPTS) throw error;
      throwIfInterrupted();
      await delay(100);
    }
  }
}

/** Starts the plugin of a lost node again. It ends with the job, after all that is undone by its calls. */
export async function returnNode(session, node) {
  const { child, logPath } = await node.start();
  const { services, undo } = session;
  services.pop();
  services[services.findIndex((service) => service.child === node.child)] = { child, logPath };
  undo.unshift(undo.pop());
}

/** Replaces the router's list of nodes, and resolves when it has read the list. */
export async function retireNodes({ directory, logPath }, retired) {
  const count = async () => (await readFile(logPath, 'utf8')).split('the list of nodes has changed').length;
  const before = await count();
  await writeList(directory, retired);
  while ((await count()) === before) {
    throwIfInterrupted();
    await delay(100);
  }
}

async function writeList(directory, retired) {
  const list = join(directory, 'nodes.json');
  const nodes = NAMES.map((id) => ({ id, address: `${addressOf(id)}:${PORT}`, retired: retired.includes(id) }));
  await writeFile(`${list}.new`, JSON.stringify({ nodes }));
  await rename(`${list}.new`, list);
  return list;
}

async function startNode(session, network, certify, name) {
  const directory = join(session.place, name);
  await mkdir(directory);
  const env = {
    BLOCKDELTA_NODE_ID: name,
    BLOCKDELTA_LISTEN_ADDRESS: `${addressOf(name)}:${PORT}`,
    BLOCKDELTA_TRANSFER_PORTS: TRANSFER_PORTS,
    ...(await certify(directory, `DNS:blockdelta-node,URI:blockdelta://blockdelta.csi/node/${name}`)),
  };
  const start = () => startPlugin(session, { directory, env, by: network.on(name) });
  const plugin = await start();
  detail(`node ${name}: ${plugin.version} at ${addressOf(name)}, and on ${plugin.endpoint}`);
  return { ...plugin, name, start };
}

async function startRouter(session, network, certify) {
  const directory = join(session.place, 'router');
  await mkdir(directory);
  const list = await writeList(directory, []);
  const env = { BLOCKDELTA_ROUTE_NODES: `file:${list}`, ...(await certify(directory, 'DNS:blockdelta-router')) };
  const command = { command: 'route', name: 'router', directory, env, by: network.on('router') };
  const router = await startService(session, command);
  detail(`router: on ${router.endpoint}`);
  return { ...router, directory };
}

/** How many bytes have reached the node through its cable. */
export async function bytesReceived({ child }) {
  // The file shows the network of that process. /sys/class/net would show that of whoever mounted it.
  const [, bytes] = /^ *eth0: *(\d+)/m.exec(await readFile(`/proc/${child.pid}/net/dev`, 'utf8'));
  return Number(bytes);
}

/**
 * Makes a certificate authority in the session's directory. What it resolves to issues certificates: it writes the files of one
 * side, with those alternative names, into a directory, and resolves to the settings that name them.
 */
async function makeAuthority({ place }) {
  const [ca, caKey] = [join(place, 'ca.crt'), join(place, 'ca.key')];
  const request = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '30'];
  await run('openssl', [...request, '-subj', '/CN=blockdelta quickstart', '-keyout', caKey, '-out', ca]);
  return async (directory, alternativeNames) => {
    const [certificate, key] = [join(directory, 'tls.crt'), join(directory, 'tls.key')];
    const names = ['-addext', 'basicConstraints=CA:FALSE', '-addext', `subjectAltName=${alternativeNames}`];
    const signed = ['-subj', '/CN=blockdelta', ...names, '-CA', ca, '-CAkey', caKey];
    await run('openssl', [...request, ...signed, '-keyout', key, '-out', certificate]);
    return { BLOCKDELTA_TLS_CERTIFICATE: certificate, BLOCKDELTA_TLS_KEY: key, BLOCKDELTA_TLS_CA: ca };
  };
}

/** A namespace for each node and one for the router, which has the switch. Nothing is left of one without processes. */
class Network {
  /** Processes that hold the namespaces, by the names of the nodes and `router`. */
  #holders = new Map();

  async connect() {
    for (const name of ['router', ...NAMES]) this.#holders.set(name, await holdNamespace());
    await this.#ip('router', 'link', 'add', 'switch', 'type', 'bridge');
    await this.#ip('router', 'address', 'add', `${SWITCH_ADDRESS}/24`, 'dev', 'switch');
    await this.#ip('router', 'link', 'set', 'switch', 'up');
    for (const name of NAMES) {
      const cable = `node-${name}`;
      const peer = ['peer', 'name', 'eth0', 'netns', String(this.#holders.get(name).pid)];
      await this.#ip('router', 'link', 'add', cable, 'type', 'veth', ...peer);
      await this.#ip('router', 'link', 'set', cable, 'master', 'switch', 'up');
      await this.#ip(name, 'address', 'add', `${addressOf(name)}/24`, 'dev', 'eth0');
      await this.#ip(name, 'link', 'set', 'eth0', 'up');
      await this.#ip(name, 'link', 'set', 'lo', 'up');
    }
  }

  /** What executes a program there, as the same process. */
  on(name) {
    return ['nsenter', `--net=/proc/${this.#holders.get(name).pid}/ns/net`, '--'];
  }

  release() {
    for (const holder of this.#holders.values()) holder.stdin.end();
  }

  async #ip(name, ...args) {
    const [program, ...rest] = [...this.on(name), 'ip', ...args];
    await run(program, rest).catch(({ message, stderr = '' }) => {
      throw new Error(`the nodes have no network: ip ${args.join(' ')}: ${stderr.trim() || message}`);
    });
  }
}

/** It ends with its stdin, so also with this process, and no signal from a terminal reaches it. */
async function holdNamespace() {
  const child = spawn('unshare', ['--net', '--', 'cat'], { stdio: ['pipe', 'pipe', 'pipe'], detached: true });
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text) => {
    stderr += text;
  });
  // It is reported as the end of the process.
  child.stdin.on('error', () => {});
  child.stdin.write('held');
  const ended = once(child, 'close').then(() => {
    throw new Error(`there is no network namespace: ${stderr.trim()}`);
  });
  ended.catch(() => {});
  await Promise.race([once(child.stdout, 'data'), ended]);
  return child;
}
