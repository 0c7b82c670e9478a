/**
 * A thin pool's bookmarks of deleted snapshots: each has a file in `bases/` of the pool's directory and a row in the ledger.
 * docs/engineering/retained-bases.md explains why a delta from a bookmark is sound.
 *
 * An invalidated bookmark never becomes valid again: its row gives the reason until it is dropped. Callers
 * hold the locks of the snapshots. Knows no limits (volumes/retained-bases.ts does).
 */
import { join } from 'node:path';
import { CsiError, errorCode, messageOf } from '../../../../base/errors.js';
import type { ThinPoolStatus } from '../../../native/dm-addon.js';
import type { NativeRunner } from '../../../native/pool.js';
import type { ThinBookmark, ThinDeviceDetails } from '../../../native/thin-addon.js';
import type { OnEvent } from '../../backend.js';
import { namesIn, unlink } from '../../directory-files.js';
import { invalidatedBase } from '../../lost-objects.js';
import { assertRetainedDirectories, basesIn } from '../../retained/retained-directories.js';
import { assertOwn } from '../device-records.js';
import type { BookmarkRecord, DeviceRecord } from '../ledger/ledger.js';
import type { AsyncLedger } from '../ledger/ledger-client.js';
import { CURRENT, type MetadataReader } from '../metadata/metadata-reader.js';
import type { PoolHistory } from '../pool/pool-history.js';
import type { ThinPool } from '../pool/thin-pool.js';
import { unsoundByHistory, unsoundByMetadata, unsoundByStatus } from './bookmark-rules.js';

export interface BookmarkDependencies {
  native: NativeRunner;
  ledger: AsyncLedger;
  metadata: Pick<MetadataReader, 'device' | 'superblock'>;
  pool: Pick<ThinPool, 'pool'>;
  onEvent: OnEvent;
  /** Called when bookmarks have become unsound in the running pool; null for all bookmarks. */
  onInvalid(snapshotId: string | null, reason: string): void;
  directory: string;
  metadataPath: string;
}

export class Bookmarks {
  readonly #directory: string;

  constructor(private readonly deps: BookmarkDependencies) {
    this.#directory = basesIn(deps.directory);
  }

  /**
   * Invalidates the bookmarks that have become unsound since the last run. Called at a start, before the
   * pool is used and before the ledger overwrites how the last run ended.
   */
  async review(history: PoolHistory): Promise<void> {
    const { ledger, metadata } = this.deps;
    const files = await this.#files();
    const bases = await ledger.bookmarks();
    if (bases.length === 0) return;
    const superblock = await metadata.superblock().catch(unreadable);
    for (const base of bases) {
      const missing = files.includes(base.snapshotId) ? null : FILE_IS_GONE;
      const unsound = typeof superblock === 'string' ? superblock : unsoundByMetadata(superblock, base);
      const reason = unsoundByHistory(history, base) ?? unsound ?? missing;
      if (reason !== null) await ledger.invalidateBookmark(base.snapshotId, reason);
    }
  }

  /** Invalidates all bookmarks if the status shows that the pool may have rolled something back. */
  async observe(status: ThinPoolStatus): Promise<void> {
    const reason = unsoundByStatus(status);
    if (reason !== null) await this.invalidateAll(reason);
  }

  /** Invalidates all bookmarks, after an event in the running pool after which none is sound. */
  async invalidateAll(reason: string): Promise<void> {
    const { ledger, pool, onEvent } = this.deps;
    const count = await ledger.invalidateAllBookmarks(reason);
    this.deps.onInvalid(null, reason);
    if (count === 0) return;
    onEvent({
      level: 'warn',
      message:
        `pool '${pool.pool}': ${count} retained bases are invalid because ${reason}; ` +
        'the next backups based on them have to be full ones',
    });
  }

  /** Null if the pool has no such snapshot. */
  async create(snapshotId: string): Promise<BookmarkRecord | null> {
    const { ledger, metadataPath: metadata, native } = this.deps;
    const known = await ledger.bookmark(snapshotId);
    const device = await ledger.device(snapshotId);
    if (known !== null && (known.invalidReason === null || device === null)) return known;
    if (device?.kind !== 'snapshot') return null;
    // The bookmark is invalid, but the snapshot has held its blocks all the time: a new bookmark is sound.
    if (known !== null) await this.drop(snapshotId);
    const { deviceId, lineage, sizeBytes } = device;
    const { root } = await this.#details(device);
    await this.#makeDirectory();
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
      invalidReason: null,
    };
    const reason = await this.#checkMetadata(base);
    if (reason !== null) {
      throw CsiError.failedPrecondition(
        `no base can be retained of snapshot ${snapshotId}, because ${reason}; delete it without, or find out what ` +
          'changed the metadata of the pool',
      );
    }
    await ledger.insertBookmark(base);
    return base;
  }

  async drop(snapshotId: string): Promise<void> {
    await this.deps.ledger.removeBookmark(snapshotId);
    await unlink(this.deps.native, this.#path(snapshotId));
  }

  /**
   * The bookmark as the base of a scan of a live snapshot. NOT_FOUND if it was invalidated;
   * FAILED_PRECONDITION if there is none, or if a delta from it to the target would not be sound.
   */
  async source(snapshotId: string, target: DeviceRecord): Promise<ThinBookmark> {
    const refuse = (why: string): CsiError =>
      CsiError.failedPrecondition(
        `no delta from snapshot ${snapshotId} to ${target.objectId}: ${why}; make a full backup`,
      );
    const base = await this.deps.ledger.bookmark(snapshotId);
    if (base === null) throw refuse('the base is not in the pool, and no bookmark of it was retained');
    if (base.invalidReason !== null) throw invalidatedBase(snapshotId, base.invalidReason);
    if (base.lineage !== target.lineage) {
      throw refuse(`the base is of volume ${base.lineage}, the target of volume ${target.lineage}`);
    }
    const { creationTime } = await this.#details(target);
    if (creationTime <= base.creationTime) {
      throw refuse(`the target was taken at pool time ${creationTime}, not after the base at ${base.creationTime}`);
    }
    const reason = await this.#invalidateIfUnsound(base);
    if (reason !== null) throw invalidatedBase(snapshotId, reason);
    return { path: this.#path(snapshotId) };
  }

  /** Why the file of the bookmark cannot be used, as a clause that follows "because"; null if it can. */
  async spoiled({ snapshotId, creationTime }: BookmarkRecord): Promise<string | null> {
    const path = this.#path(snapshotId);
    await assertRetainedDirectories(this.deps.native, this.deps.pool.pool, this.deps.directory);
    try {
      const found = await this.deps.native.run('verifyThinBookmark', { path });
      // No other snapshot of the pool was created at that time.
      return found.creationTime === creationTime ? null : `${path} is the bookmark of another snapshot`;
    } catch (thrown) {
      const code = errorCode(thrown);
      if (code === 'ENOENT') return FILE_IS_GONE;
      if (code === 'THIN_METADATA_INVALID') return `its bookmark is damaged: ${messageOf(thrown)}`;
      throw thrown;
    }
  }

  /** Removes files without a row, which a kill may leave, and returns their names. */
  async sweep(): Promise<string[]> {
    const known = new Set((await this.deps.ledger.bookmarks()).map((base) => base.snapshotId));
    const swept = (await this.#files()).filter((name) => !known.has(name));
    for (const name of swept) await unlink(this.deps.native, this.#path(name));
    return swept;
  }

  /** Invalidates a bookmark that has become unsound, and returns the reason; null if the bookmark is sound. */
  async #invalidateIfUnsound(base: BookmarkRecord): Promise<string | null> {
    const reason = await this.#checkMetadata(base);
    if (reason !== null) return reason;
    const spoiled = await this.spoiled(base);
    if (spoiled === null) return null;
    await this.deps.ledger.invalidateBookmark(base.snapshotId, spoiled);
    this.deps.onInvalid(base.snapshotId, spoiled);
    return spoiled;
  }

  /** Why the superblock makes the bookmark unsound; null if it does not. A reason invalidates all bookmarks of the pool. */
  async #checkMetadata(base: BookmarkRecord): Promise<string | null> {
    const reason = unsoundByMetadata(await this.deps.metadata.superblock(), base);
    if (reason !== null) await this.invalidateAll(reason);
    return reason;
  }

  async #details(record: DeviceRecord): Promise<ThinDeviceDetails> {
    const { metadata, pool } = this.deps;
    return assertOwn(record, await metadata.device(record.deviceId), pool);
  }

  async #files(): Promise<string[]> {
    await this.#makeDirectory();
    return namesIn(this.deps.native, this.#directory);
  }

  /** A new pool does not have the directory. */
  async #makeDirectory(): Promise<void> {
    await assertRetainedDirectories(this.deps.native, this.deps.pool.pool, this.deps.directory);
    await this.deps.native.run('makeDirectory', { path: this.#directory });
  }

  #path(snapshotId: string): string {
    return join(this.#directory, snapshotId);
  }
}

const FILE_IS_GONE = 'the file of its bookmark is gone';
const unreadable = (thrown: unknown): string =>
  `the superblock of its pool could not be read at a start: ${messageOf(thrown)}`;
