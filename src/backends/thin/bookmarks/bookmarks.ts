/**
 * What a thin pool keeps of deleted snapshots: a file for each in `bases/` of the pool's directory, and
 * a row in its ledger. docs/retained-bases.md has the argument why a delta from one is sound.
 *
 * A base that has become unsound is lost for good: its row says why until it is dropped. Callers hold
 * the locks of the snapshots. Knows no limits (volumes/retained-bases.ts does).
 */
import { mkdir, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { CsiError } from '../../../base/errors.js';
import type { ThinPoolStatus } from '../../../native/dm-addon.js';
import type { NativeRunner } from '../../../native/pool.js';
import type { ThinBookmark, ThinDeviceDetails } from '../../../native/thin-addon.js';
import type { RetainedBase, RetainedBases } from '../../backend.js';
import type { OnEvent } from '../../events.js';
import type { DeviceRecord, RetainedBaseRecord } from '../ledger/ledger.js';
import type { AsyncLedger } from '../ledger/ledger-client.js';
import { invalidatedBase } from '../lost-objects.js';
import { CURRENT, type MetadataReader } from '../metadata/metadata-reader.js';
import { type BaseHistory, lossByHistory, lossByMetadata, lossByStatus } from './bookmark-rules.js';

export interface RetainedBaseDependencies {
  native: NativeRunner;
  ledger: AsyncLedger;
  look: Pick<MetadataReader, 'device' | 'superblock'>;
  /** As it is configured. */
  poolName: string;
  onEvent: OnEvent;
  /** Of the pool. */
  directory: string;
  metadataPath: string;
}

export class Bookmarks {
  readonly #directory: string;

  constructor(private readonly deps: RetainedBaseDependencies) {
    this.#directory = join(deps.directory, 'bases');
  }

  /**
   * At a start, before the pool is used and before the ledger forgets how the last run ended: loses
   * what has become unsound since.
   */
  async review(history: BaseHistory): Promise<void> {
    const { ledger, look } = this.deps;
    const files = await this.#files();
    const bases = await ledger.retainedBases();
    if (bases.length === 0) return;
    const superblock = await look.superblock().catch(() => null);
    for (const base of bases) {
      const missing = files.includes(base.snapshotId) ? null : FILE_IS_GONE;
      const reason =
        lossByHistory(history, base) ??
        (superblock === null ? UNREADABLE : lossByMetadata(superblock, base)) ??
        missing;
      if (reason !== null) await ledger.invalidateRetainedBase(base.snapshotId, reason);
    }
  }

  /** Wherever the pool's status was asked for: loses all bases if the pool may have undone something. */
  async observe(status: ThinPoolStatus): Promise<void> {
    const reason = lossByStatus(status);
    if (reason !== null) await this.loseAll(reason);
  }

  /** Something has happened to the running pool after which none can be trusted. */
  async loseAll(reason: string): Promise<void> {
    const { ledger, poolName, onEvent } = this.deps;
    const count = await ledger.invalidateAllRetainedBases(reason);
    if (count === 0) return;
    onEvent({
      level: 'warn',
      message: `pool '${poolName}' has lost ${count} kept bases because ${reason}; the next backups from them have to be full ones`,
    });
  }

  async keep(snapshotId: string): Promise<RetainedBase | null> {
    const { ledger, metadataPath: metadata, native } = this.deps;
    const known = await ledger.retainedBase(snapshotId);
    const device = await ledger.device(snapshotId);
    if (known !== null && (known.lost === null || device === null)) return retainedBase(known);
    if (device?.kind !== 'snapshot') return null;
    // What was lost before the snapshot was deleted is kept anew: it held its blocks all the time.
    if (known !== null) await this.drop(snapshotId);
    const { deviceId, lineage, sizeBytes } = device;
    const { root } = await this.#details(device);
    await mkdir(this.#directory, { recursive: true, mode: 0o700 });
    const path = this.#path(snapshotId);
    const { fileBytes, creationTime } = await native.run('createThinBookmark', {
      metadata,
      superblock: CURRENT,
      device: { deviceId, root },
      sizeBytes,
      temporaryPath: `${path}.tmp`,
      path,
    });
    const base = {
      snapshotId,
      lineage,
      sizeBytes,
      creationTime,
      storedBytes: fileBytes,
      lost: null,
    };
    const reason = await this.#lossByMetadata(base);
    if (reason !== null) {
      throw CsiError.failedPrecondition(
        `what is kept of snapshot ${snapshotId} would prove nothing, because ${reason}`,
      );
    }
    await ledger.insertRetainedBase(base);
    return retainedBase(base);
  }

  async list(): Promise<RetainedBases> {
    const bases = await this.deps.ledger.retainedBases();
    return {
      usable: bases.filter(({ lost }) => lost === null).map(retainedBase),
      lost: bases.flatMap(({ snapshotId, lost: reason }) =>
        reason === null ? [] : [{ snapshotId, reason }],
      ),
    };
  }

  async drop(snapshotId: string): Promise<void> {
    await this.deps.ledger.removeRetainedBase(snapshotId);
    await rm(this.#path(snapshotId), { force: true });
  }

  /**
   * For a scan of a live snapshot. NOT_FOUND if the base was kept and is lost; FAILED_PRECONDITION if it
   * was not, or if a delta from it to the target would not be sound.
   */
  async source(snapshotId: string, target: DeviceRecord): Promise<ThinBookmark> {
    const refuse = (why: string): CsiError =>
      CsiError.failedPrecondition(
        `no delta from snapshot ${snapshotId} to ${target.objectId}: ${why}; make a full backup`,
      );
    const base = await this.deps.ledger.retainedBase(snapshotId);
    if (base === null) throw refuse('the base is neither in the pool nor kept of it');
    if (base.lost !== null) throw invalidatedBase(snapshotId, base.lost);
    if (base.lineage !== target.lineage) {
      throw refuse(`one was cut of volume ${base.lineage}, the other of ${target.lineage}`);
    }
    const { creationTime } = await this.#details(target);
    if (creationTime <= base.creationTime) {
      throw refuse(`by the pool's time ${creationTime} it is not after time ${base.creationTime}`);
    }
    const reason = await this.#lossNow(base);
    if (reason !== null) throw invalidatedBase(snapshotId, reason);
    return { path: this.#path(snapshotId) };
  }

  /** Removes files that a kill left, or whose row is gone, and returns their names. */
  async sweep(): Promise<string[]> {
    const known = new Set((await this.deps.ledger.retainedBases()).map((base) => base.snapshotId));
    const swept = (await this.#files()).filter((name) => !known.has(name));
    for (const name of swept) await rm(join(this.#directory, name), { force: true });
    return swept;
  }

  /** Why a base is lost that was not yet; it is from then on. */
  async #lossNow(base: RetainedBaseRecord): Promise<string | null> {
    const reason = await this.#lossByMetadata(base);
    if (reason !== null || (await this.#files()).includes(base.snapshotId)) return reason;
    await this.deps.ledger.invalidateRetainedBase(base.snapshotId, FILE_IS_GONE);
    return FILE_IS_GONE;
  }

  /** What the metadata says against a base it says against all: they are lost then. */
  async #lossByMetadata(base: RetainedBaseRecord): Promise<string | null> {
    const reason = lossByMetadata(await this.deps.look.superblock(), base);
    if (reason !== null) await this.loseAll(reason);
    return reason;
  }

  async #details({ objectId, deviceId, madeAt }: DeviceRecord): Promise<ThinDeviceDetails> {
    const details = await this.deps.look.device(deviceId);
    if (details?.transactionId === madeAt) return details;
    throw CsiError.failedPrecondition(
      `snapshot ${objectId} is lost: its pool has no device ${deviceId} that was made for it`,
    );
  }

  /** None, before anything was ever kept. */
  async #files(): Promise<string[]> {
    await mkdir(this.#directory, { recursive: true, mode: 0o700 });
    return readdir(this.#directory);
  }

  #path(snapshotId: string): string {
    return join(this.#directory, snapshotId);
  }
}

const FILE_IS_GONE = 'the file of what was kept is gone';
const UNREADABLE = 'the superblock of its pool could not be read at a start';

const retainedBase = ({ snapshotId, storedBytes }: RetainedBaseRecord): RetainedBase => ({
  snapshotId,
  storedBytes,
});
