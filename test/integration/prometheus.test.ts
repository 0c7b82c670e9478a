/**
 * A real Prometheus scrapes the plugin, with an XFS pool and an embedded one. test/guest/prometheus.test.ts
 * does the same with a thin pool.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { NO_PROMETHEUS, prometheusProgram } from '../support/prometheus.js';
import { assertScraped } from '../support/scraped-plugin.js';
import { makePoolFileSystem, skipUnlessRoot, Workspace } from '../support/workspace.js';

const prometheus = prometheusProgram('prometheus');
const skip = skipUnlessRoot || (prometheus === null ? NO_PROMETHEUS : false);

test('Prometheus shows every documented metric of a running plugin', { skip }, async (t) => {
  assert.ok(prometheus !== null);
  const workspace = new Workspace('prometheus');
  t.after(() => workspace.dispose());
  const main = makePoolFileSystem(workspace, 'xfs');
  const pools = `main=${main},image=${workspace.path('image')}`;
  await assertScraped({ workspace, prometheus, pools, absent: /^blockdelta_pool_thin_/ });
});
