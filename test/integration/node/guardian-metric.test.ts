/** A plugin says whether the guardian of another container runs. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { packagePath } from '../../../src/base/package-root.js';
import { PluginMetrics } from '../../../src/driver/metrics/plugin-metrics.js';
import { eventually } from '../../support/eventually.js';
import { temporaryDirectory } from '../../support/temporary.js';

const socketPath = join(temporaryDirectory(), 'guardian.sock');

/** What a collection has for the guardian. */
async function shown(observed: boolean): Promise<string | undefined> {
  const metrics = new PluginMetrics({ showsVolumes: false, freshMs: 0 });
  if (observed) metrics.observeGuardian(socketPath);
  const address = await metrics.listen({ host: '127.0.0.1', port: 0 }, { isReady: true } as never);
  const text = await (await fetch(`http://${address}/metrics`)).text();
  await metrics.close();
  return /^blockdelta_guardian_up (\S+)$/m.exec(text)?.[1];
}

test('a guardian is up while its process holds the socket, also after another one left the file behind', async () => {
  assert.equal(await shown(false), undefined);
  assert.equal(await shown(true), '0');
  for (const signal of ['SIGKILL', 'SIGTERM'] as const) {
    const guardian = spawn(packagePath('build/Release/blockdelta-guardian'), ['--listen', socketPath]);
    const ended = once(guardian, 'exit');
    await eventually('the guardian listens', async () => (await shown(true)) === '1');
    guardian.kill(signal);
    await ended;
    assert.equal(existsSync(socketPath), signal === 'SIGKILL');
    assert.equal(await shown(true), '0');
  }
});
