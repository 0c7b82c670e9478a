/**
 * A real Prometheus scrapes the plugin, with an XFS pool and an embedded one. This machine may have no
 * device-mapper, so the figures of a thin pool come from a second process whose pool reports them;
 * test/guest/plugin.test.ts has a real one.
 */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { PoolStatistics } from '../../src/backends/backend.js';
import { PluginMetrics } from '../../src/metrics/plugin-metrics.js';
import { MemoryBackend } from '../backend/memory-backend.js';
import { NO_PROMETHEUS, prometheusProgram } from '../support/prometheus.js';
import { assertScraped } from '../support/scraped-plugin.js';
import { makePoolFileSystem, skipUnlessRoot, Workspace } from '../support/workspace.js';

const prometheus = prometheusProgram('prometheus');
const skip = skipUnlessRoot || (prometheus === null ? NO_PROMETHEUS : false);
const MIB = 1n << 20n;

/** A pool in memory that reports what a thin pool does. */
class ThinFigures extends MemoryBackend {
  override async statistics(): Promise<PoolStatistics> {
    const { space } = await super.statistics();
    assert.ok(space !== null);
    const metadata = { totalBytes: 16n * MIB, usedBytes: 4n * MIB };
    const data = { totalBytes: 1024n * MIB, usedBytes: 100n * MIB };
    return {
      space: { ...space, capacity: { ...space.capacity, metadata } },
      thin: { mode: 'rw', needsCheck: false, data },
    };
  }
}

/** host:port of its metrics. */
async function listenWithThinFigures(t: TestContext): Promise<string> {
  const metrics = new PluginMetrics({ showsVolumes: true });
  metrics.observeStorage({
    registry: { all: [new ThinFigures(undefined, { pool: 'thin' })], unavailable: [] },
    catalogue: { statistics: async () => ({ pools: [], volumes: [], omittedVolumes: 0 }) },
  });
  t.after(() => metrics.close());
  return metrics.listen({ host: '127.0.0.1', port: 0 }, async () => 'ready');
}

test('Prometheus shows every documented metric of a running plugin', { skip }, async (t) => {
  assert.ok(prometheus !== null);
  const workspace = new Workspace('prometheus');
  t.after(() => workspace.dispose());
  const pools = `main=${makePoolFileSystem(workspace, 'xfs')},image=${workspace.path('image')}`;
  await assertScraped({ workspace, prometheus, pools, other: await listenWithThinFigures(t) });
});
