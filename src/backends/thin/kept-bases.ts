/**
 * What a thin pool keeps of deleted snapshots: a file for each in `bases/` of the pool's directory, and
 * a row in its ledger. docs/kept-bases.md has the argument why a delta from one is sound.
 *
 * A base that has become unsound is lost for good: its row says why until it is dropped. Callers hold
 * the locks of the snapshots. Knows no limits (volumes/kept-bases.ts does).
 */
import { mkdir, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { CsiError } from '../../errors.js';
import type { ThinPoolStatus } from '../../native/dm-addon.js';
import type { NativeRunner } from '../../native/pool.js';
import type { ThinDeviceDetails, ThinScanSource } from '../../native/thin-addon.js';
import type { KeptBase, KeptBases } from '../backend.js';
import { lossAtStart, lossByMetadata, lossByStatus, type PoolAtStart } from './kept-base-rules.js';
import type { AsyncLedger, DeviceRecord, KeptBaseRecord } from './ledger.js';
import { CURRENT, type MetadataLook } from './metadata-look.js';

export interface ThinKeptBasesDependencies {
  pool: string;
  ledger: AsyncLedger;
  native: NativeRunner;
  /** `bases/` of the pool's directory. */
  directory: string;
  /** What is committed, so never ahead of what a power cut would leave. */
  look: Pick<MetadataLook, 'device' | 'superblock'>;
  /** The metadata device. */
  metadata: string;
}

const TEMPORARY = '.tmp';

export class ThinKeptBases {
  constructor(private readonly deps: ThinKeptBasesDependencies) {}

  /**
   * Before the pool is activated, and before the ledger forgets how the last run ended: loses what
   * has become unsound since, and removes files that no row knows.
   */
  async start(at: PoolAtStart): Promise<void> {
    const { ledger, directory } = this.deps;
    await mkdir(directory, { recursive: true, mode: 0o700 });
    const files = new Set(await readdir(directory));
    const bases = await ledger.keptBases();
    for (const base of bases) {
      const missing = files.has(base.snapshotId)
        ? null
        : 'the file with what was kept of it is gone';
      const reason = lossAtStart(at, base) ?? missing;
      if (reason !== null) await ledger.loseKeptBase(base.snapshotId, reason);
    }
    const known = new Set(bases.map(({ snapshotId }) => snapshotId));
    for (const name of files)
      if (!known.has(name)) await rm(join(directory, name), { force: true });
  }

  /** Wherever the pool's status was asked for: loses all bases if the pool may have undone something. */
  async observe(status: ThinPoolStatus): Promise<void> {
    const reason = lossByStatus(status);
    if (reason !== null) await this.#loseAll(reason);
  }

  async keep(snapshotId: string): Promise<KeptBase | null> {
    const { ledger, metadata, native } = this.deps;
    const known = await ledger.keptBase(snapshotId);
    if (known !== null) return keptBase(known);
    const device = await ledger.device(snapshotId);
    if (device?.kind !== 'snapshot') return null;
    const { root } = await this.#lookUp(device);
    const path = this.#path(snapshotId);
    const { fileBytes, creationTime } = await native.run('thinKeepBase', {
      metadata,
      superblock: CURRENT,
      device: { deviceId: device.deviceId, root },
      sizeBytes: device.sizeBytes,
      temporaryPath: `${path}${TEMPORARY}`,
      path,
    });
    const { lineage, sizeBytes } = device;
    const base = {
      snapshotId,
      lineage,
      sizeBytes,
      creationTime,
      storedBytes: fileBytes,
      lost: null,
    };
    await ledger.insertKeptBase(base);
    return keptBase(base);
  }

  async list(): Promise<KeptBases> {
    const bases = await this.deps.ledger.keptBases();
    return {
      usable: bases.filter(({ lost }) => lost === null).map(keptBase),
      lost: bases.flatMap(({ snapshotId, lost: reason }) =>
        reason === null ? [] : [{ snapshotId, reason }],
      ),
    };
  }

  async drop(snapshotId: string): Promise<void> {
    await this.deps.ledger.removeKeptBase(snapshotId);
    await rm(this.#path(snapshotId), { force: true });
  }

  /** The target is a live snapshot. FAILED_PRECONDITION unless the base is kept and the delta sound. */
  async scanSource(target: DeviceRecord, baseId: string): Promise<ThinScanSource> {
    const base = await this.#usable(target, baseId);
    const details = await this.#lookUp(target);
    const { deviceId, sizeBytes } = target;
    if (details.creationTime <= base.creationTime) {
      throw CsiError.failedPrecondition(
        `snapshot ${target.objectId} was created at the pool's time ${details.creationTime}, and its base ` +
          `${baseId} at ${base.creationTime}: no delta can be proved`,
      );
    }
    return {
      kind: 'thin',
      metadata: this.deps.metadata,
      superblock: CURRENT,
      sizeBytes,
      target: { deviceId, root: details.root },
      base: null,
      keptBase: { path: this.#path(baseId) },
    };
  }

  async #usable(target: DeviceRecord, baseId: string): Promise<KeptBaseRecord> {
    const base = await this.deps.ledger.keptBase(baseId);
    const refuse = (why: string): CsiError =>
      CsiError.failedPrecondition(`no delta from snapshot ${baseId}: ${why}; make a full backup`);
    if (base === null) throw refuse(`it is neither in pool '${this.deps.pool}' nor kept of it`);
    if (base.lost !== null)
      throw refuse(`it was deleted, and what was kept is lost because ${base.lost}`);
    if (base.lineage !== target.lineage) {
      throw refuse(
        `it was cut of volume ${base.lineage}, and ${target.objectId} of ${target.lineage}`,
      );
    }
    return base;
  }

  async #lookUp(device: DeviceRecord): Promise<ThinDeviceDetails> {
    const { look, pool } = this.deps;
    const details = await look.device(device.deviceId);
    const reason = lossByMetadata(await look.superblock());
    if (reason !== null) {
      await this.#loseAll(reason);
      throw CsiError.failedPrecondition(
        `nothing of snapshot ${device.objectId} can be proved, because ${reason}`,
      );
    }
    if (details !== null) return details;
    throw CsiError.failedPrecondition(
      `pool '${pool}' has lost snapshot ${device.objectId}: there is no device ${device.deviceId}`,
    );
  }

  async #loseAll(reason: string): Promise<void> {
    const { ledger } = this.deps;
    for (const { snapshotId, lost } of await ledger.keptBases()) {
      if (lost === null) await ledger.loseKeptBase(snapshotId, reason);
    }
  }

  #path(snapshotId: string): string {
    return join(this.deps.directory, snapshotId);
  }
}

const keptBase = ({ snapshotId, storedBytes }: KeptBaseRecord): KeptBase => ({
  snapshotId,
  storedBytes,
});
