/** The process around the services, as sections 3 and 14 of the specification require. */
import assert from 'node:assert/strict';
import { readdirSync, readlinkSync } from 'node:fs';
import { allRpcs } from '../support/raw-call.js';
import { refused } from '../support/refusal.js';
import { runPlugin, test } from '../support/running-plugin.js';

const running = runPlugin('identity', { pools: { main: 'xfs' } });

test('ID11: five hundred Probes at once are all answered, between other calls', async () => {
  const { client } = running;
  const probes = Array.from({ length: 500 }, () => client.identity.Probe({}));
  const other = client.controller.ListVolumes({});
  for (const answer of await Promise.all(probes)) assert.equal(answer['ready'].value, true);
  assert.deepEqual((await other)['entries'], []);
});

test('E1, E7, E11: every service answers on the one socket for as long as the process runs', async () => {
  const { client } = running;
  const { process: child } = running.plugin;
  assert.equal(new Set(allRpcs().map(({ service }) => service)).size, 5);
  await client.identity.Probe({});
  await client.controller.ControllerGetCapabilities({});
  await client.groups.GroupControllerGetCapabilities({});
  await client.node.NodeGetCapabilities({});
  await refused(client.allocated('none-exist-id'), 'NOT_FOUND');
  assert.equal(child.exitCode, null);
});

test('E8: nothing is written except to stderr, the state directory and the pools', async () => {
  const { process: child } = running.plugin;
  const opened = readdirSync(`/proc/${child.pid}/fd`).flatMap((fd) => {
    try {
      return [readlinkSync(`/proc/${child.pid}/fd/${fd}`)];
    } catch {
      return [];
    }
  });
  const files = opened.filter((path) => path.startsWith('/') && !path.startsWith('/dev/'));
  const allowed = ['plugin', 'xfs.pool'].map((name) => running.workspace.path(name));
  const strays = files.filter((file) => !allowed.some((path) => file.startsWith(`${path}/`)));
  assert.deepEqual(strays, []);
});

test('E3: the plugin creates nothing beside the socket', async () => {
  const names = readdirSync(running.workspace.directory).sort();
  assert.deepEqual(names, ['plugin', 'plugin.sock', 'xfs.img', 'xfs.pool']);
});
