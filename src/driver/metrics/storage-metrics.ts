/**
 * The metrics of pools and volumes. Each collection asks every pool and the catalogue once, all at the same time and
 * within a time limit. A pool that does not answer is reported as down, and is not asked again until it has answered,
 * so that a dead disk blocks one question and no scrape. The same applies to the catalogue.
 *
 * Values are JavaScript numbers: bytes beyond 2^53 are rounded.
 */
import { setImmediate } from 'node:timers/promises';
import { Counter, Gauge, type Registry } from 'prom-client';
import { SingleFlight } from '../../base/single-flight.js';
import { withTimeout } from '../../base/timeout.js';
import type { Backend, PoolEvent, PoolStatistics } from '../backends/backend.js';
import type { BackendRegistry } from '../backends/registry.js';
import type { AsyncCatalogue } from '../catalogue/catalogue-client.js';
import type { CatalogueStatistics } from '../catalogue/statistics.js';

/** Well below the 10 s after which Prometheus gives up a scrape. */
const ANSWER_MS = 4000;
/** The most volumes that get series of their own: the series grow with the volumes, and each costs Prometheus. */
export const MAX_VOLUMES = 1000;
const VOLUMES_AT_ONCE = 100;
const EVENT_LEVELS: readonly PoolEvent['level'][] = ['info', 'warn', 'error'];
const PIECE_OUTCOMES = ['fetched', 'failed'] as const;
const THIN_MODES = ['rw', 'ro', 'out_of_data_space', 'fail', 'error'];

export interface StorageSources {
  registry: Pick<BackendRegistry, 'all' | 'unavailable'>;
  catalogue: Pick<AsyncCatalogue, 'statistics'>;
}

interface PoolFindings {
  pool: string;
  /** Null if the kind is unknown because the pool could not be started. */
  kind: string | null;
  isUp: boolean;
  statistics: PoolStatistics | null;
}

export class StorageMetrics {
  readonly #volumesShown: number;
  readonly #pools = new SingleFlight<Backend, PoolFindings>();
  readonly #counts = new SingleFlight<'catalogue', CatalogueStatistics>();
  readonly #gauges: ReturnType<typeof poolGauges>;
  readonly #volumeGauges: ReturnType<typeof volumeGauges>;
  readonly #copies: Gauge<'state'>;
  readonly #copyFailures: Counter;
  readonly #events: Counter<'pool' | 'level'>;
  readonly #pieces: Counter<'pool' | 'outcome'>;
  readonly #pulledBytes: Counter<'pool'>;
  readonly #catalogueUp: Gauge;
  #sources: StorageSources | null = null;

  /**
   * @param showsVolumes whether each volume gets series of its own, up to MAX_VOLUMES
   * @param answerMs how long a collection waits for pools and catalogue
   */
  constructor(
    registry: Registry,
    showsVolumes: boolean,
    private readonly answerMs = ANSWER_MS,
  ) {
    this.#volumesShown = showsVolumes ? MAX_VOLUMES : 0;
    this.#gauges = poolGauges(registry);
    this.#volumeGauges = volumeGauges(registry);
    const help = '1 if the catalogue answered in time, otherwise 0';
    this.#catalogueUp = gaugeMaker(registry)('catalogue_up', help);
    this.#copies = gaugeMaker(registry, 'state')(
      'copies',
      'copies of snapshots that other nodes are to make (pending), keep, or are to remove (ending)',
    );
    this.#copyFailures = new Counter({
      name: 'blockdelta_copy_failures_total',
      help: 'attempts of routers to have a copy of a snapshot made that have failed',
      registers: [registry],
    });
    this.#events = new Counter({
      name: 'blockdelta_pool_events_total',
      help: 'log lines of pools outside of calls, by level',
      labelNames: ['pool', 'level'],
      registers: [registry],
    });
    this.#pieces = new Counter({
      name: 'blockdelta_pool_pulled_pieces_total',
      help: 'pieces of snapshots of other nodes that were fetched, and that were not',
      labelNames: ['pool', 'outcome'],
      registers: [registry],
    });
    this.#pulledBytes = new Counter({
      name: 'blockdelta_pool_pulled_bytes_total',
      help: 'data of the pieces that were fetched',
      labelNames: ['pool'],
      registers: [registry],
    });
  }

  /** A piece of a snapshot of another node was fetched, or not. */
  piece(pool: string, outcome: 'fetched' | 'failed', bytes: bigint): void {
    this.#pieces.inc({ pool, outcome });
    if (outcome === 'fetched') this.#pulledBytes.inc({ pool }, Number(bytes));
  }

  /** From this call on, each collection reads these sources. */
  observe(sources: StorageSources): void {
    this.#sources = sources;
  }

  /** A copy of a snapshot could not be made on another node. */
  copyFailed(): void {
    this.#copyFailures.inc();
  }

  poolEvent(pool: string, level: PoolEvent['level']): void {
    this.#events.inc({ pool, level });
  }

  /** Never rejects. */
  async collect(): Promise<void> {
    if (this.#sources === null) return;
    const { registry, catalogue } = this.#sources;
    const [counts, ...found] = await Promise.all([
      this.#count(catalogue),
      ...registry.all.map((backend) => this.#find(backend)),
    ]);
    for (const { pool } of registry.unavailable) {
      found.push({ pool, kind: null, isUp: false, statistics: null });
    }
    for (const gauge of [...Object.values(this.#gauges), ...Object.values(this.#volumeGauges)]) {
      gauge.reset();
    }
    this.#catalogueUp.set(counts === null ? 0 : 1);
    for (const pool of found) this.#setPool(pool);
    if (counts === null) return;
    this.#setCounts(counts);
    await this.#setVolumes(counts, found);
  }

  async #find(backend: Backend): Promise<PoolFindings> {
    const { pool, kind } = backend;
    const asked = this.#pools.run(backend, () => readPool(backend));
    return withTimeout(asked, this.answerMs, () => ({
      pool,
      kind,
      isUp: false,
      statistics: null,
    }));
  }

  async #count(catalogue: StorageSources['catalogue']): Promise<CatalogueStatistics | null> {
    const asked = this.#counts.run('catalogue', () => catalogue.statistics(this.#volumesShown));
    return withTimeout(asked, this.answerMs, () => null).catch(() => null);
  }

  #setPool({ pool, kind, isUp, statistics }: PoolFindings): void {
    const gauges = this.#gauges;
    gauges.up.set({ pool }, isUp ? 1 : 0);
    // The series start at 0, so that the first event changes its series.
    for (const level of EVENT_LEVELS) this.#events.inc({ pool, level }, 0);
    if (kind !== null) gauges.info.set({ pool, kind }, 1);
    if (statistics === null) return;
    const { space, thin, attached } = statistics;
    if (attached !== undefined) {
      gauges.attached.set({ pool, io: 'direct' }, attached.direct);
      gauges.attached.set({ pool, io: 'page_cache' }, attached.pageCache);
    }
    if (space !== null) {
      const { totalBytes, freeBytes, reserveBytes, availableBytes, lacksBacking } = space.capacity;
      gauges.size.set({ pool }, Number(totalBytes));
      gauges.free.set({ pool }, Number(freeBytes));
      gauges.used.set({ pool }, Number(totalBytes - freeBytes));
      gauges.reserve.set({ pool }, Number(reserveBytes));
      gauges.available.set({ pool }, Number(availableBytes));
      gauges.promised.set({ pool }, Number(space.promisedBytes));
      gauges.lacksBacking.set({ pool }, lacksBacking === true ? 1 : 0);
      const { metadata } = space.capacity;
      if (metadata !== undefined) {
        gauges.thinMetadata.set({ pool }, Number(metadata.totalBytes));
        gauges.thinMetadataUsed.set({ pool }, Number(metadata.usedBytes));
      }
    }
    if (thin === null) return;
    for (const mode of THIN_MODES) gauges.thinMode.set({ pool, mode }, mode === thin.mode ? 1 : 0);
    gauges.thinNeedsCheck.set({ pool }, thin.needsCheck ? 1 : 0);
    if (thin.data === null) return;
    gauges.thinData.set({ pool }, Number(thin.data.totalBytes));
    gauges.thinDataUsed.set({ pool }, Number(thin.data.usedBytes));
  }

  #setCounts(counts: CatalogueStatistics): void {
    const gauges = this.#gauges;
    for (const { pool, ...of } of counts.pools) {
      gauges.volumes.set({ pool }, of.volumes);
      gauges.snapshots.set({ pool }, of.snapshots);
      gauges.bases.set({ pool, state: 'usable' }, of.usableBases);
      gauges.bases.set({ pool, state: 'invalidated' }, of.invalidatedBases);
      gauges.baseBytes.set({ pool }, Number(of.usableBaseBytes));
      gauges.replicas.set({ pool, state: 'promised' }, of.promisedReplicas);
      gauges.replicas.set({ pool, state: 'complete' }, of.completeReplicas);
      gauges.replicas.set({ pool, state: 'unfinished' }, of.unfinishedReplicas);
      for (const outcome of PIECE_OUTCOMES) this.#pieces.inc({ pool, outcome }, 0);
      this.#pulledBytes.inc({ pool }, 0);
    }
    this.#volumeGauges.omitted.set(counts.omittedVolumes);
    for (const [state, count] of Object.entries(counts.copies)) this.#copies.set({ state }, count);
  }

  /** Sets the gauges of VOLUMES_AT_ONCE volumes at a time, so that other work runs in between. */
  async #setVolumes(counts: CatalogueStatistics, found: readonly PoolFindings[]): Promise<void> {
    const space = new Map(found.map(({ pool, statistics }) => [pool, statistics?.space?.volumes]));
    const volumes = this.#volumeGauges;
    for (const [index, counted] of counts.volumes.entries()) {
      if (index % VOLUMES_AT_ONCE === 0) await setImmediate();
      const { volumeId: volume, pool, name, sizeBytes, snapshots, newestCopyNs } = counted;
      const labels = { pool, volume };
      volumes.info.set({ ...labels, name }, 1);
      volumes.size.set(labels, Number(sizeBytes));
      volumes.snapshots.set(labels, snapshots);
      if (newestCopyNs !== null) volumes.newestCopy.set(labels, Number(newestCopyNs / 1_000_000n) / 1000);
      const used = space.get(pool)?.get(volume);
      if (used !== undefined) volumes.used.set(labels, Number(used));
    }
  }
}

/** A pool that cannot serve, such as a read-only one, may still have statistics. Never rejects. */
async function readPool(backend: Backend): Promise<PoolFindings> {
  const { pool, kind } = backend;
  const isUp = await backend.check().then(
    () => true,
    () => false,
  );
  const statistics = await backend.statistics().catch(() => null);
  return { pool, kind, isUp: isUp && statistics !== null, statistics };
}

/** Returns a function that makes gauges with these labels and with labels of their own. */
function gaugeMaker<Common extends string>(registry: Registry, ...common: Common[]) {
  return <Label extends string>(name: string, help: string, ...more: Label[]) =>
    new Gauge<Common | Label>({
      name: `blockdelta_${name}`,
      help,
      labelNames: [...common, ...more],
      registers: [registry],
    });
}

function poolGauges(registry: Registry) {
  const gauge = gaugeMaker(registry, 'pool');
  return {
    up: gauge('pool_up', '1 if the pool works and answered in time, otherwise 0'),
    info: gauge('pool_info', 'always 1; the label says which backend serves the pool', 'kind'),
    size: gauge('pool_size_bytes', 'size of the pool'),
    used: gauge('pool_used_bytes', 'size of the pool less its free space'),
    free: gauge('pool_free_bytes', 'free space that the storage below can provide now'),
    reserve: gauge('pool_reserve_bytes', 'part of the free space that new volumes may not use'),
    available: gauge('pool_available_bytes', 'what new volumes may take, as GetCapacity answers'),
    promised: gauge(
      'pool_promised_bytes',
      'what existing volumes may still claim: their blocks that were never written',
    ),
    lacksBacking: gauge(
      'pool_lacks_backing',
      '1 if the storage below may be unable to provide what was promised to volumes',
    ),
    attached: gauge(
      'pool_attached_volumes',
      'writable loop devices of volumes, by whether they write directly or through the page cache',
      'io',
    ),
    volumes: gauge('pool_volumes', 'volumes that are ready'),
    snapshots: gauge('pool_snapshots', 'snapshots that are ready'),
    bases: gauge(
      'pool_retained_bases',
      'deleted snapshots that can be the base of a delta, and those that no longer can',
      'state',
    ),
    baseBytes: gauge('pool_retained_bases_bytes', 'space that usable retained bases take'),
    replicas: gauge(
      'pool_replicas',
      'copies of snapshots of other nodes: promised to their nodes, complete as a cache, or unfinished',
      'state',
    ),
    thinMode: gauge(
      'pool_thin_mode',
      '1 for the mode that device-mapper reports for a thin pool, 0 for the others',
      'mode',
    ),
    thinNeedsCheck: gauge('pool_thin_needs_check', '1 if the metadata of a thin pool needs a check'),
    thinData: gauge('pool_thin_data_bytes', 'size of the data device of a thin pool'),
    thinDataUsed: gauge('pool_thin_data_used_bytes', 'size of the data blocks in use in a thin pool'),
    thinMetadata: gauge('pool_thin_metadata_bytes', 'size of the metadata device of a thin pool'),
    thinMetadataUsed: gauge('pool_thin_metadata_used_bytes', 'size of the metadata blocks in use in a thin pool'),
  };
}

function volumeGauges(registry: Registry) {
  const gauge = gaugeMaker(registry, 'pool', 'volume');
  return {
    info: gauge('volume_info', 'always 1; the label has the name from CreateVolume', 'name'),
    size: gauge('volume_size_bytes', 'size of the volume'),
    used: gauge('volume_used_bytes', 'space that its blocks take in the pool, including blocks that snapshots share'),
    snapshots: gauge('volume_snapshots', 'ready snapshots of the volume'),
    newestCopy: gauge(
      'volume_newest_copy_timestamp_seconds',
      'when the newest snapshot was taken that another node keeps a copy of; absent without one',
    ),
    omitted: gaugeMaker(registry)(
      'volumes_omitted',
      'volumes without their own metrics, because there are too many volumes or the metrics are off',
    ),
  };
}
