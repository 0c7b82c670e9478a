/** Calls that arrive before the plugin has started wait, for a limited time. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { rejectsWith } from '../support/expect-status.js';
import { fakeService, startServer } from './server-fixture.js';

test('ID8: while the pools start, calls of services that are not open yet wait', async (t) => {
  const node = fakeService('Node', { unary: { NodeGetInfo: async () => ({ node_id: 'n' }) } });
  const { server, client } = await startServer(t, { starting: true });
  const waiting = [client.node.NodeGetInfo({}), client.node.NodeGetInfo({})];
  const lost = rejectsWith(client.allocated('s'), 'UNIMPLEMENTED', /SnapshotMetadata/);
  await rejectsWith(client.node.NodeGetInfo({}, { deadlineMs: 100 }), 'DEADLINE_EXCEEDED');
  server.open([node]);
  for (const answer of await Promise.all(waiting)) assert.equal(answer['node_id'], 'n');
  await lost;
});

test('a stop while the pools start ends the waiting calls', async (t) => {
  const { server, client } = await startServer(t, { starting: true });
  const waiting = rejectsWith(client.node.NodeGetInfo({}), 'UNAVAILABLE');
  await rejectsWith(client.node.NodeGetInfo({}, { deadlineMs: 100 }), 'DEADLINE_EXCEEDED');
  assert.deepEqual(await server.stop(), { forced: false, unfinished: 0 });
  await waiting;
});

test('while the pools take too long to start, open services answer and others are UNAVAILABLE', async (t) => {
  const identity = fakeService('Identity', { unary: { Probe: async () => ({ ready: null }) } });
  const node = fakeService('Node', { unary: { NodeGetInfo: async () => ({ node_id: 'n' }) } });
  const options = { services: [identity], starting: true, startTimeoutMs: 20 };
  const { server, client } = await startServer(t, options);
  await client.identity.Probe({});
  await rejectsWith(client.node.NodeGetInfo({}), 'UNAVAILABLE', /starting/);
  await rejectsWith(client.allocated('s'), 'UNAVAILABLE', /starting/);
  server.open([node]);
  assert.equal((await client.node.NodeGetInfo({}))['node_id'], 'n');
  await rejectsWith(client.allocated('s'), 'UNIMPLEMENTED', /SnapshotMetadata/);
});
