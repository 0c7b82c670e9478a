/** The listener of the metrics in the plugin's process. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, renameSync } from 'node:fs';
import { createServer } from 'node:net';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { scrape } from '../support/metrics-text.js';
import { Plugin, spawnPlugin } from '../support/plugin.js';
import { metricsAddressOf } from '../support/scraped-plugin.js';
import { makePoolFileSystem, skipUnlessRoot, Workspace } from '../support/workspace.js';

const skip = skipUnlessRoot;

test('an address in use ends the start with one line, and leaves no socket', {
  skip,
}, async (t) => {
  const workspace = new Workspace('metrics-address');
  t.after(() => workspace.dispose());
  const other = createServer().listen({ host: '127.0.0.1', port: 0 });
  await once(other, 'listening');
  t.after(() => other.close());
  const { port } = other.address() as { port: number };
  const address = `127.0.0.1:${port}`;
  const child = spawnPlugin(workspace, { env: { BLOCKDELTA_METRICS_ADDRESS: address } });
  let output = '';
  child.stderr?.on('data', (chunk: Buffer) => {
    output += chunk.toString();
  });
  await once(child, 'close');
  assert.equal(child.exitCode, 1);
  assert.match(output, new RegExp(`BLOCKDELTA_METRICS_ADDRESS is ${address}, .* choose another`));
  assert.doesNotMatch(output, /\n\s+at /);
  assert.ok(!existsSync(workspace.path('plugin.sock')));
});

test('/readyz follows Probe, and a pool that goes away is down, while it is away', {
  skip,
}, async (t) => {
  const workspace = new Workspace('metrics-ready');
  t.after(() => workspace.dispose());
  const directory = makePoolFileSystem(workspace, 'xfs');
  const env = { BLOCKDELTA_METRICS_ADDRESS: '127.0.0.1:0' };
  const pools = `main=${directory}/pool`;
  const plugin = await Plugin.start(workspace, { pools, env });
  t.after(() => plugin.kill());
  const url = `http://${metricsAddressOf(plugin.log)}`;
  /** Waits until the page has the status, and the pool the state: answers are kept for a second. */
  const becomes = async (status: number, up: number): Promise<string> => {
    for (;;) {
      const response = await fetch(`${url}/readyz`);
      const text = await response.text();
      const found = (await scrape(`${url}/metrics`)).value('blockdelta_pool_up', { pool: 'main' });
      if (response.status === status && found === up) return text;
      await delay(100);
    }
  };
  await becomes(200, 1);
  renameSync(`${directory}/pool`, `${directory}/away`);
  assert.match(await becomes(503, 0), /^not ready: .*main/);
  assert.equal((await fetch(`${url}/healthz`)).status, 200);
  renameSync(`${directory}/away`, `${directory}/pool`);
  await becomes(200, 1);
});
