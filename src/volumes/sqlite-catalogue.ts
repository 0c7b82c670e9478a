/**
 * The catalogue in SQLite: one method, one transaction, durable when it returns.
 *
 * Synchronous, and every commit waits for the disk: it lives on a thread of its own (see
 * catalogue-worker.ts) and is called through catalogue-client.ts. It holds the database exclusively,
 * so a second plugin on the same state directory is refused. It knows rows, no rules of CSI.
 */
import { CsiError, errorCode } from '../errors.js';
import * as rows from './catalogue-rows.js';
import { migrate } from './catalogue-schema.js';
import { KeptDatabase } from './kept-database.js';
import type {
  Catalogue,
  PublicationRecord,
  SnapshotRecord,
  SnapshotState,
  StagingRecord,
  UnfinishedWork,
  VolumeRecord,
  VolumeState,
} from './records.js';

/** Other broken constraints are mistakes of ours, never a name or id that somebody else has. */
const TAKEN = ['SQLITE_CONSTRAINT_UNIQUE', 'SQLITE_CONSTRAINT_PRIMARYKEY'];

/** A predecessor that was killed a moment ago may not be gone yet. */
const LOCK_TIMEOUT_MS = 2000;

export class SqliteCatalogue implements Catalogue {
  readonly #database: KeptDatabase;

  /** Opens or makes the database. Throws CsiError FAILED_PRECONDITION if another process holds it. */
  constructor(readonly file: string) {
    this.#database = new KeptDatabase(file, LOCK_TIMEOUT_MS);
    try {
      this.#database.exec('PRAGMA locking_mode = EXCLUSIVE');
      this.#database.exec('PRAGMA journal_mode = WAL');
      this.#database.exec('PRAGMA synchronous = FULL');
      this.#database.exec('PRAGMA foreign_keys = ON');
      migrate(this.#database);
    } catch (thrown) {
      this.#database.close();
      if (errorCode(thrown)?.startsWith('SQLITE_BUSY')) {
        throw CsiError.failedPrecondition(
          `the catalogue ${file} is in use by another process: one plugin serves a state directory`,
          { cause: thrown },
        );
      }
      throw thrown;
    }
  }

  close(): void {
    this.#database.close();
  }

  uuid(): string {
    return (this.#get('SELECT uuid FROM catalogue') as { uuid: string }).uuid;
  }

  poolUuid(name: string): string | null {
    const row = this.#get('SELECT uuid FROM pools WHERE name = ?', name) as
      | { uuid: string }
      | undefined;
    return row?.uuid ?? null;
  }

  registerPool(name: string, poolUuid: string): string {
    const other = this.#get('SELECT name FROM pools WHERE uuid = ? AND name <> ?', poolUuid, name);
    if (other !== undefined) {
      throw CsiError.failedPrecondition(
        `pool '${name}' is the one the catalogue knows as '${String(other['name'])}': pools keep ` +
          'their names; give it that name in BLOCKDELTA_POOLS',
      );
    }
    this.#run(
      'INSERT INTO pools (name, uuid) VALUES (?, ?) ON CONFLICT (name) DO NOTHING',
      name,
      poolUuid,
    );
    const row = this.#get('SELECT uuid FROM pools WHERE name = ?', name) as { uuid: string };
    return row.uuid;
  }

  volumeById(volumeId: string): VolumeRecord | null {
    return rows.volume(this.#get('SELECT * FROM volumes WHERE volume_id = ?', volumeId));
  }

  volumeByName(name: string): VolumeRecord | null {
    return rows.volume(
      this.#get("SELECT * FROM volumes WHERE name = ? AND state <> 'deleted'", name),
    );
  }

  listVolumes(): VolumeRecord[] {
    return this.#all("SELECT * FROM volumes WHERE state = 'ready' ORDER BY volume_id").map(
      rows.volumeRow,
    );
  }

  insertVolume(volume: VolumeRecord): void {
    this.#insert(`volume name '${volume.name}'`, () =>
      this.#run(
        `INSERT INTO volumes (volume_id, name, pool, size_bytes, state, parameters, capabilities,
           source_snapshot_id, fresh, created_ns) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
        volume.volumeId,
        volume.name,
        volume.pool,
        volume.sizeBytes,
        volume.state,
        JSON.stringify(volume.parameters),
        JSON.stringify(volume.capabilities),
        volume.sourceSnapshotId,
        volume.fresh ? 1 : 0,
        volume.createdNs,
      ),
    );
  }

  setVolumeState(volumeId: string, state: VolumeState): void {
    this.#run('UPDATE volumes SET state = ? WHERE volume_id = ?', state, volumeId);
  }

  markVolumeUsed(volumeId: string): void {
    this.#run('UPDATE volumes SET fresh = 0 WHERE volume_id = ?', volumeId);
  }

  removeVolume(volumeId: string): void {
    this.#database.transaction(() => {
      this.#run('DELETE FROM stagings WHERE volume_id = ?', volumeId);
      this.#run('DELETE FROM publications WHERE volume_id = ?', volumeId);
      this.setVolumeState(volumeId, 'deleted');
      this.#dropOrphanedLineage(volumeId);
    });
  }

  snapshotById(snapshotId: string): SnapshotRecord | null {
    return rows.snapshot(this.#get('SELECT * FROM snapshots WHERE snapshot_id = ?', snapshotId));
  }

  snapshotByName(name: string): SnapshotRecord | null {
    return rows.snapshot(this.#get('SELECT * FROM snapshots WHERE name = ?', name));
  }

  listSnapshots(): SnapshotRecord[] {
    return this.#all("SELECT * FROM snapshots WHERE state = 'ready' ORDER BY snapshot_id").map(
      rows.snapshotRow,
    );
  }

  insertSnapshot(snapshot: Omit<SnapshotRecord, 'sequence'>): SnapshotRecord {
    this.#insert(`snapshot name '${snapshot.name}'`, () =>
      this.#run(
        `INSERT INTO snapshots (snapshot_id, name, volume_id, pool, size_bytes, state,
           creation_time_ns, parameters, fresh) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
        snapshot.snapshotId,
        snapshot.name,
        snapshot.volumeId,
        snapshot.pool,
        snapshot.sizeBytes,
        snapshot.state,
        snapshot.creationTimeNs,
        JSON.stringify(snapshot.parameters),
        snapshot.fresh ? 1 : 0,
      ),
    );
    return this.#existingSnapshot(snapshot.snapshotId);
  }

  commitSnapshot(snapshotId: string, creationTimeNs: bigint, sizeBytes: bigint): SnapshotRecord {
    this.#run(
      "UPDATE snapshots SET state = 'ready', creation_time_ns = ?, size_bytes = ? WHERE snapshot_id = ?",
      creationTimeNs,
      sizeBytes,
      snapshotId,
    );
    return this.#existingSnapshot(snapshotId);
  }

  setSnapshotState(snapshotId: string, state: SnapshotState): void {
    this.#run('UPDATE snapshots SET state = ? WHERE snapshot_id = ?', state, snapshotId);
  }

  removeSnapshot(snapshotId: string): void {
    this.#database.transaction(() => {
      const snapshot = this.snapshotById(snapshotId);
      if (snapshot === null) return;
      this.#run('DELETE FROM snapshots WHERE snapshot_id = ?', snapshotId);
      this.#dropOrphanedLineage(snapshot.volumeId);
    });
  }

  stagings(volumeId: string): StagingRecord[] {
    return this.#all('SELECT * FROM stagings WHERE volume_id = ?', volumeId).map(rows.staging);
  }

  putStaging(staging: StagingRecord): void {
    this.#run(
      'INSERT OR REPLACE INTO stagings (volume_id, staging_path, capability) VALUES (?, ?, ?)',
      staging.volumeId,
      staging.stagingPath,
      JSON.stringify(staging.capability),
    );
  }

  removeStaging(volumeId: string, stagingPath: string): void {
    this.#run(
      'DELETE FROM stagings WHERE volume_id = ? AND staging_path = ?',
      volumeId,
      stagingPath,
    );
  }

  publications(volumeId: string): PublicationRecord[] {
    return this.#all('SELECT * FROM publications WHERE volume_id = ?', volumeId).map(
      rows.publicationRow,
    );
  }

  publicationAt(targetPath: string): PublicationRecord | null {
    const row = this.#get('SELECT * FROM publications WHERE target_path = ?', targetPath);
    return row === undefined ? null : rows.publicationRow(row);
  }

  putPublication(publication: PublicationRecord): void {
    this.#run(
      `INSERT OR REPLACE INTO publications (target_path, volume_id, staging_path, capability, read_only)
         VALUES (?, ?, ?, ?, ?)`,
      publication.targetPath,
      publication.volumeId,
      publication.stagingPath,
      JSON.stringify(publication.capability),
      publication.readOnly ? 1 : 0,
    );
  }

  removePublication(targetPath: string): void {
    this.#run('DELETE FROM publications WHERE target_path = ?', targetPath);
  }

  unfinished(): UnfinishedWork {
    return {
      volumes: this.#all("SELECT * FROM volumes WHERE state IN ('creating', 'deleting')").map(
        rows.volumeRow,
      ),
      snapshots: this.#all("SELECT * FROM snapshots WHERE state IN ('creating', 'deleting')").map(
        rows.snapshotRow,
      ),
    };
  }

  #dropOrphanedLineage(volumeId: string): void {
    this.#run(
      `DELETE FROM volumes WHERE volume_id = ? AND state = 'deleted'
         AND NOT EXISTS (SELECT 1 FROM snapshots WHERE volume_id = volumes.volume_id)`,
      volumeId,
    );
  }

  #existingSnapshot(snapshotId: string): SnapshotRecord {
    const snapshot = this.snapshotById(snapshotId);
    if (snapshot === null)
      throw CsiError.internal(`snapshot ${snapshotId} is not in the catalogue`);
    return snapshot;
  }

  #insert(label: string, insert: () => void): void {
    try {
      insert();
    } catch (thrown) {
      if (TAKEN.includes(errorCode(thrown) ?? '')) {
        throw CsiError.alreadyExists(`${label} is taken`, { cause: thrown });
      }
      throw thrown;
    }
  }

  #run(sql: string, ...values: unknown[]): void {
    this.#database.run(sql, ...values);
  }

  #get(sql: string, ...values: unknown[]): rows.Row | undefined {
    return this.#database.get(sql, ...values) as rows.Row | undefined;
  }

  #all(sql: string, ...values: unknown[]): rows.Row[] {
    return this.#database.all(sql, ...values) as rows.Row[];
  }
}
