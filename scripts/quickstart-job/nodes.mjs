/**
 * Two nodes and their router on one machine: plugins in network namespaces of their own, connected by Ethernet cables to a
 * switch, and the router where the switch is. Only the network is apart: they share the mounts and devices of the machine.
 */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { startPlugin, startService } from './services.mjs';
import { detail } from './steps.mjs';

const run = promisify(execFile);

const NAMES = ['a', 'b'];
const PORT = 9810;
const TRANSFER_PORTS = '10900-10903';
const addressOf = (name) => `10.99.0.${NAMES.indexOf(name) + 1}`;
const SWITCH_ADDRESS = '10.99.0.254';

/**
 * Resolves, when all are ready, to the router and the nodes by their names. The client `csi` of a node calls the router for the
 * controller and the node for itself, as sidecars and kubelet do.
 */
export async function startNodes(session) {
  const certify = await makeAuthority(session);
  const network = new Network();
  try {
    await network.connect();
    const plugins = [];
    for (const name of NAMES) plugins.push(await startNode(session, network, certify, name));
    const router = await startRouter(session, network, certify);
    const nodes = plugins.map((plugin) => ({ ...plugin, csi: router.csi.withNode(plugin.csi) }));
    return { router, ...Object.fromEntries(nodes.map((node) => [node.name, node])) };
  } finally {
    // Each service that runs keeps its namespace from now on.
    network.release();
  }
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
  const plugin = await startPlugin(session, { directory, env, by: network.on(name) });
  detail(`node ${name}: ${plugin.version} at ${addressOf(name)}, and on ${plugin.endpoint}`);
  return { ...plugin, name };
}

async function startRouter(session, network, certify) {
  const directory = join(session.place, 'router');
  await mkdir(directory);
  const list = join(directory, 'nodes.json');
  const nodes = NAMES.map((id) => ({ id, address: `${addressOf(id)}:${PORT}` }));
  await writeFile(list, JSON.stringify({ nodes }));
  const env = { BLOCKDELTA_ROUTE_NODES: `file:${list}`, ...(await certify(directory, 'DNS:blockdelta-router')) };
  const command = { command: 'route', name: 'router', directory, env, by: network.on('router') };
  const router = await startService(session, command);
  detail(`router: on ${router.endpoint}`);
  return router;
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
