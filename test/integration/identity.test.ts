/** The Identity service and the process around it, as sections 3 and 14 of the specification require. */
import assert from 'node:assert/strict';
import { readdirSync, readlinkSync } from 'node:fs';
import { after, before } from 'node:test';
import type { Message } from '../support/csi-client.js';
import { Plugin } from '../support/plugin.js';
import { allRpcs } from '../support/raw-call.js';
import { refused } from '../support/refusal.js';
import { test } from '../support/running-plugin.js';
import { makePoolFileSystem, skipUnlessRoot, Workspace } from '../support/workspace.js';

/** Another node, with its own state and pool, and one with another setting. */
const otherInstances = (): Record<string, string>[] => [
  {
    BLOCKDELTA_NODE_ID: 'another-node',
    BLOCKDELTA_STATE_DIR: elsewhere.path('state'),
    BLOCKDELTA_POOLS: `main=${elsewhere.path('pool')}`,
  },
  { BLOCKDELTA_CONTROLLER_PUBLISH: 'on' },
];

let workspace: Workspace;
/** Of another node. */
let elsewhere: Workspace;
let plugin: Plugin | undefined;
let settings = '';

before(() => {
  if (skipUnlessRoot !== false) return;
  workspace = new Workspace('identity');
  elsewhere = new Workspace('identity-other');
  makePoolFileSystem(workspace, 'xfs', 512);
});
after(async () => {
  await plugin?.kill();
  if (skipUnlessRoot !== false) return;
  workspace.dispose();
  elsewhere.dispose();
});

/** One with these settings: the one that runs, or a new one. */
async function start(env: Record<string, string> = {}): Promise<Plugin> {
  const wanted = JSON.stringify(env);
  if (plugin !== undefined && settings === wanted) return plugin;
  await plugin?.stop();
  settings = wanted;
  plugin = await Plugin.start(workspace, { pools: `main=${workspace.path('xfs.pool')}`, env });
  return plugin;
}

async function identityAnswers({ client }: Plugin): Promise<Message[]> {
  const { identity } = client;
  return [
    await identity.GetPluginInfo({}),
    await identity.GetPluginCapabilities({}),
    await identity.Probe({}),
  ];
}

test('ID1, ID2, ID3: the name is a domain name that begins and ends with a letter, the version is present, both within their limits', async () => {
  const { client } = await start();
  const { name, vendor_version, manifest } = await client.identity.GetPluginInfo({});
  assert.match(name, /^[A-Za-z][A-Za-z0-9.-]{0,61}[A-Za-z]$/);
  assert.match(vendor_version, /^\d+\.\d+\.\d+/);
  assert.ok(Buffer.byteLength(vendor_version) <= 128);
  assert.deepEqual(manifest, {});
});

test('ID1: GetPluginInfo returns the name that was set, up to 63 characters', async () => {
  const name = `a${'-b.c'.repeat(15)}-d`;
  assert.equal(name.length, 63);
  const { client } = await start({ BLOCKDELTA_DRIVER_NAME: name });
  assert.equal((await client.identity.GetPluginInfo({}))['name'], name);
});

test('ID5, ID12, E1, E11, E20: every instance serves the whole Identity service with the same answers', async () => {
  const answers = [await identityAnswers(await start())];
  for (const env of otherInstances()) answers.push(await identityAnswers(await start(env)));
  const [first, ...others] = answers;
  for (const other of others) assert.deepEqual(other, first);
});

test('ID7: Probe of a working plugin reports ready', async () => {
  const { client } = await start();
  assert.deepEqual(await client.identity.Probe({}), { ready: { value: true } });
});

test('ID11: two thousand Probes at once are all answered, between other calls', async () => {
  const { client } = await start();
  const probes = Array.from({ length: 2000 }, () => client.identity.Probe({}));
  const other = client.controller.ListVolumes({});
  for (const answer of await Promise.all(probes)) assert.equal(answer['ready'].value, true);
  assert.deepEqual((await other)['entries'], []);
});

test('E1, E7: every service answers on the one socket for as long as the process runs', async () => {
  const { client, process: child } = await start();
  assert.equal(new Set(allRpcs().map(({ service }) => service)).size, 5);
  await client.identity.Probe({});
  await client.controller.ControllerGetCapabilities({});
  await client.groups.GroupControllerGetCapabilities({});
  await client.node.NodeGetCapabilities({});
  await refused(client.allocated('none-exist-id'), 'NOT_FOUND');
  assert.equal(child.exitCode, null);
});

test('E8: nothing is written except to stderr, the state directory and the pools', async () => {
  const { process: child } = await start();
  const opened = readdirSync(`/proc/${child.pid}/fd`).flatMap((fd) => {
    try {
      return [readlinkSync(`/proc/${child.pid}/fd/${fd}`)];
    } catch {
      return [];
    }
  });
  const files = opened.filter((path) => path.startsWith('/') && !path.startsWith('/dev/'));
  const allowed = ['plugin', 'xfs.pool'].map((name) => workspace.path(name));
  const strays = files.filter((file) => !allowed.some((path) => file.startsWith(`${path}/`)));
  assert.deepEqual(strays, []);
});

test('E3: the plugin creates nothing beside the socket', async () => {
  await start();
  const names = readdirSync(workspace.directory).sort();
  assert.deepEqual(names, ['plugin', 'plugin.sock', 'xfs.img', 'xfs.pool']);
});
