/** What a scrape of the node costs, and the figures of its pools, volumes and catalogue. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Gauge, Registry } from 'prom-client';
import { CsiError } from '../../../src/base/errors.js';
import type { Backend } from '../../../src/driver/backends/backend.js';
import type { UnavailablePool } from '../../../src/driver/backends/registry.js';
import type { CatalogueStatistics } from '../../../src/driver/catalogue/statistics.js';
import { StorageMetrics } from '../../../src/driver/metrics/storage-metrics.js';
import { Exposition } from '../../../src/server/metrics/exposition.js';
import { Readiness } from '../../../src/server/metrics/readiness.js';
import { MemoryBackend } from '../../backend/memory-backend.js';
import { MetricsText } from '../../support/metrics-text.js';

test('many scrapes at once cost one collection, and so do those shortly after it', async () => {
  const registry = new Registry();
  const gauge = new Gauge({ name: 'collections', help: 'x', registers: [registry] });
  const exposition = new Exposition(registry, 60_000);
  exposition.add(async () => gauge.inc());
  const texts = await Promise.all(Array.from({ length: 50 }, () => exposition.text()));
  texts.push(await exposition.text());
  for (const text of texts) assert.match(text.toString(), /^collections 1$/m);
});

test('a text that has aged is collected again, and a failure is not kept', async () => {
  const registry = new Registry();
  const exposition = new Exposition(registry, 0);
  let collections = 0;
  exposition.add(async () => {
    collections += 1;
    if (collections === 2) throw new Error('no');
  });
  await exposition.text();
  await assert.rejects(exposition.text());
  await exposition.text();
  assert.equal(collections, 3);
});

test('readiness is what Probe says, asked once for many questions', async () => {
  let asked = 0;
  const failing = new Readiness(async () => {
    asked += 1;
    throw new Error("pool 'a' is gone");
  });
  const answers = await Promise.all([failing.notReady(), failing.notReady()]);
  answers.push(await failing.notReady());
  assert.deepEqual(answers, Array(3).fill("pool 'a' is gone"));
  assert.equal(asked, 1);
  assert.match(String(await new Readiness(async () => 'starting').notReady()), /starting/);
  assert.equal(await new Readiness(async () => 'ready').notReady(), null);
});

const MIB = 1n << 20n;

const NOTHING: CatalogueStatistics = {
  pools: [],
  volumes: [],
  omittedVolumes: 0,
  copies: { pending: 0, kept: 0, ending: 0 },
};

function observe({
  backends = [] as Backend[],
  unavailable = [] as UnavailablePool[],
  statistics = async (_limit: number) => NOTHING,
  showsVolumes = true,
}): () => Promise<MetricsText> {
  const registry = new Registry();
  const metrics = new StorageMetrics(registry, showsVolumes, 50);
  metrics.observe({ registry: { all: backends, unavailable }, catalogue: { statistics } });
  return async () => {
    await metrics.collect();
    return new MetricsText(await registry.metrics());
  };
}

test('the figures of a pool are those that its backend reports', async () => {
  const backend = new MemoryBackend(undefined, { pool: 'main', totalBytes: 100n * MIB });
  await backend.volumes.create('v1', 10n * MIB);
  const found = await observe({ backends: [backend] })();
  const value = (name: string) => found.value(`blockdelta_pool_${name}`, { pool: 'main' });
  assert.equal(value('up'), 1);
  assert.equal(value('size_bytes'), Number(100n * MIB));
  assert.equal(value('used_bytes'), Number(10n * MIB));
  assert.equal(value('promised_bytes'), Number(10n * MIB));
  assert.equal(value('thin_mode'), undefined);
  assert.equal(found.value('blockdelta_pool_info', { pool: 'main', kind: 'memory' }), 1);
});

test('a pool that could not be started, and one that fails its check, are down', async () => {
  const failure = CsiError.failedPrecondition('its disk is missing');
  const reading = new MemoryBackend(undefined, { pool: 'read-only' });
  reading.check = () => Promise.reject(failure);
  const found = await observe({
    backends: [reading, new MemoryBackend(undefined, { pool: 'well' })],
    unavailable: [{ pool: 'absent', failure }],
  })();
  const up = (pool: string) => found.value('blockdelta_pool_up', { pool });
  assert.deepEqual([up('absent'), up('read-only'), up('well')], [0, 0, 1]);
  assert.ok((found.value('blockdelta_pool_size_bytes', { pool: 'read-only' }) ?? 0) > 0);
});

test('H25: a pool that does not answer is down, holds no scrape, and is asked once', async (t) => {
  let answer = (): void => undefined;
  const dead = new MemoryBackend(undefined, { pool: 'dead' });
  const hangs = () => new Promise<void>((resolve) => (answer = resolve));
  const { mock: check } = t.mock.method(dead, 'check', hangs);
  const collect = observe({ backends: [dead, new MemoryBackend(undefined, { pool: 'well' })] });
  for (let scrapes = 0; scrapes < 3; scrapes += 1) {
    const found = await collect();
    assert.equal(found.value('blockdelta_pool_up', { pool: 'dead' }), 0);
    assert.equal(found.value('blockdelta_pool_size_bytes', { pool: 'dead' }), undefined);
    assert.equal(found.value('blockdelta_pool_up', { pool: 'well' }), 1);
  }
  assert.equal(check.callCount(), 1);
  answer();
  check.restore();
  await collect();
});

test('a catalogue that does not answer, or fails, is down', async () => {
  for (const statistics of [() => new Promise<never>(() => undefined), () => Promise.reject(new Error('damaged'))]) {
    const found = await observe({ statistics })();
    assert.equal(found.value('blockdelta_catalogue_up'), 0);
  }
  assert.equal((await observe({})()).value('blockdelta_catalogue_up'), 1);
});

const VOLUME = {
  volumeId: 'v1',
  name: 'pvc-"1"\n',
  pool: 'main',
  sizeBytes: MIB,
  snapshots: 3,
  newestCopyNs: 1_700_000_000_500_000_000n,
};

test('a volume has figures while it is there, and no name that breaks the format', async () => {
  let statistics: CatalogueStatistics = { ...NOTHING, volumes: [VOLUME] };
  const limits: number[] = [];
  const asked = (limit: number) => {
    limits.push(limit);
    return Promise.resolve(statistics);
  };
  const collect = observe({ statistics: asked });
  const found = await collect();
  assert.equal(found.value('blockdelta_volume_snapshots', { volume: 'v1' }), 3);
  assert.equal(found.value('blockdelta_volume_newest_copy_timestamp_seconds'), 1_700_000_000.5);
  assert.equal(found.value('blockdelta_copies', { state: 'pending' }), 0);
  assert.deepEqual(found.labelValues('blockdelta_volume_info', 'name'), ['pvc-\\"1\\"\\n']);
  statistics = NOTHING;
  assert.equal((await collect()).value('blockdelta_volume_snapshots'), undefined);
  await observe({ statistics: asked, showsVolumes: false })();
  assert.deepEqual(limits, [1000, 1000, 0]);
});
