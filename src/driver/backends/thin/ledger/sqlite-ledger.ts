/**
 * The ledger in SQLite: each change runs as one transaction (SoundDatabase), durable when it returns.
 *
 * Synchronous, and every commit waits for the disk, so this module runs on a thread of its own; the
 * event loop calls it through ledger-client.ts. The pool's claim keeps other plugins away, not a lock here.
 */
import { randomUUID } from 'node:crypto';
import { CsiError } from '../../../../base/errors.js';
import { freesSpace, reads, takesSpace, takesSpaceIf, writes } from '../../../database/calls.js';
import { insertUnique, type Row, type SqliteConnection } from '../../../database/connection.js';
import { serveDatabase } from '../../../database/database-service.js';
import type { DatabaseDefinition } from '../../../database/definition.js';
import type {
  BookmarkRecord,
  DeviceKind,
  DeviceRecord,
  DeviceState,
  NewDevice,
  OpenTransaction,
  PoolRecord,
  StopStamp,
} from './ledger.js';
import { LEDGER_STEPS } from './ledger-schema.js';

export type Ledger = ReturnType<typeof ledgerCalls>;

const FIRST_DEVICE_ID = 1;
/** dm-thin keeps 24 bits of a device id. */
const LAST_DEVICE_ID = (1 << 24) - 1;

/** How long to wait for another connection of this plugin that is writing. */
const LOCK_TIMEOUT_MS = 5000;

export default serveDatabase(ledgerDefinition, ledgerCalls);

export function ledgerDefinition(file: string): DatabaseDefinition {
  return {
    label: 'the ledger',
    file,
    remedy:
      'restore the one that was there at the last stop of the pool, or follow docs/backends.md under ' +
      '"A damaged ledger"',
    steps: LEDGER_STEPS,
    lockTimeoutMs: LOCK_TIMEOUT_MS,
  };
}

export function ledgerCalls(database: SqliteConnection) {
  return {
    ...poolCalls(database),
    ...deviceCalls(database),
    ...transactionCalls(database),
    ...markCalls(database),
    ...bookmarkCalls(database),
  };
}

function poolCalls(database: SqliteConnection) {
  const make = `INSERT INTO pool (uuid, state, data_block_bytes, transaction_id, next_device_id,
      holds_metadata_snapshot, passes_discards) SELECT ?, 'new', ?, 0, ?, 0, 1 WHERE NOT EXISTS (SELECT 1 FROM pool)`;
  return {
    /** Creates the pool's record with this block size unless there is a record. Precedes all other calls. */
    makePool: writes((dataBlockBytes: bigint): void =>
      database.run(make, randomUUID(), dataBlockBytes, FIRST_DEVICE_ID),
    ),
    pool: reads((): PoolRecord => poolRow(onlyPool(database))),
    setPoolState: writes((state: PoolRecord['state']): void => database.run('UPDATE pool SET state = ?', state)),
    setLabelledBytes: writes((deviceBytes: bigint): void =>
      database.run('UPDATE pool SET labelled_bytes = ?', deviceBytes),
    ),
    setHoldsMetadataSnapshot: freesSpace((holds: boolean): void =>
      database.run('UPDATE pool SET holds_metadata_snapshot = ?', Number(holds)),
    ),
    /** Records that the pool is in use from now on, and removes the stamp of the last stop. */
    recordStart: writes((bootId: string, passesDiscards: boolean): void =>
      database.run(
        `UPDATE pool SET boot_id = ?, passes_discards = ?, stopped_transaction_id = NULL, stopped_time = NULL,
          stopped_mapping_root = NULL, stopped_details_root = NULL`,
        bootId,
        Number(passesDiscards),
      ),
    ),
    recordStop: freesSpace(({ transactionId, time, mappingRoot, detailsRoot }: StopStamp): void =>
      database.run(
        `UPDATE pool SET stopped_transaction_id = ?, stopped_time = ?, stopped_mapping_root = ?,
            stopped_details_root = ?`,
        transactionId,
        time,
        mappingRoot,
        detailsRoot,
      ),
    ),
  };
}

function deviceCalls(database: SqliteConnection) {
  const ofVolume = "WHERE object_id = ? AND kind = 'volume' AND state = 'live'";
  return {
    /** Devices that are live or being deleted, in the order of their ids. */
    devices: reads((): DeviceRecord[] =>
      database.all("SELECT * FROM devices WHERE state <> 'creating' ORDER BY device_id").map(deviceRow),
    ),
    /** Null unless the device is live. */
    device: reads((objectId: string): DeviceRecord | null =>
      database.find(deviceRow, "SELECT * FROM devices WHERE object_id = ? AND state = 'live'", objectId),
    ),
    /** The ids that begin() assigns next. */
    upcomingIds: reads((count: number): number[] => upcomingIds(database, count)),
    /** Continues with the ids after `last`, which is in use in the pool. */
    skipDeviceIds: writes((last: number): void => database.run('UPDATE pool SET next_device_id = ?', follow(last))),
    /** Never shrinks the volume. Returns the resulting size; null if there is no such volume. */
    growVolume: writes((volumeId: string, sizeBytes: bigint): bigint | null => {
      database.run(`UPDATE devices SET size_bytes = max(size_bytes, ?) ${ofVolume}`, sizeBytes, volumeId);
      const row = database.get(`SELECT size_bytes FROM devices ${ofVolume}`, volumeId);
      return row === undefined ? null : (row['size_bytes'] as bigint);
    }),
    setPromise: takesSpace((objectId: string, promiseId: string): void =>
      database.run('UPDATE devices SET promise_id = ? WHERE object_id = ?', promiseId, objectId),
    ),
    setOpen: freesSpace((volumeId: string, open: boolean): void =>
      database.run('UPDATE devices SET open = ? WHERE object_id = ?', Number(open), volumeId),
    ),
  };
}

function transactionCalls(database: SqliteConnection) {
  return {
    /**
     * Opens a transaction that creates the devices `creates` and deletes the devices `deletes` (object ids of live devices).
     * Assigns ids to the new devices, never an id that is recorded here. Throws if a transaction is open already, or if an
     * object id is in use.
     */
    begin: takesSpaceIf(
      (creates) => creates.length > 0,
      (creates: readonly NewDevice[], deletes: readonly string[]): OpenTransaction => begin(database, creates, deletes),
    ),
    /** Null if no transaction is open. */
    openTransaction: reads((): OpenTransaction | null => openTransaction(database)),
    /** Call when the pool has the id that the transaction opens: created devices become live, deleted ones are removed. */
    apply: freesSpace((): void => {
      database.run("DELETE FROM devices WHERE state = 'deleting'");
      database.run("UPDATE devices SET state = 'live' WHERE state = 'creating'");
      database.run('UPDATE pool SET transaction_id = opens, opens = NULL WHERE opens IS NOT NULL');
    }),
    /** Call when nothing of the transaction has happened. Its device ids become free, and are assigned again much later. */
    undo: freesSpace((): void => {
      database.run("DELETE FROM devices WHERE state = 'creating'");
      database.run("UPDATE devices SET state = 'live' WHERE state = 'deleting'");
      database.run('UPDATE pool SET opens = NULL');
    }),
  };
}

function markCalls(database: SqliteConnection) {
  return {
    markInitialized: takesSpace((volumeIds: readonly string[]): void =>
      database.run(
        'INSERT OR IGNORE INTO initialized_marks (volume_id) SELECT value FROM json_each(?)',
        JSON.stringify(volumeIds),
      ),
    ),
    isInitialized: reads(
      (volumeId: string): boolean =>
        database.get('SELECT 1 FROM initialized_marks WHERE volume_id = ?', volumeId) !== undefined,
    ),
    initializedVolumes: reads((): string[] =>
      database.all('SELECT volume_id FROM initialized_marks').map((row) => String(row['volume_id'])),
    ),
    unmarkInitialized: freesSpace((volumeId: string): void =>
      database.run('DELETE FROM initialized_marks WHERE volume_id = ?', volumeId),
    ),
    /** Removes the marks of volumes that do not exist. */
    sweepMarks: freesSpace((): void =>
      database.run('DELETE FROM initialized_marks WHERE volume_id NOT IN (SELECT object_id FROM devices)'),
    ),
  };
}

function bookmarkCalls(database: SqliteConnection) {
  return {
    /** In the order in which they were inserted. */
    bookmarks: reads((): BookmarkRecord[] =>
      database.all('SELECT * FROM retained_bases ORDER BY sequence').map(bookmarkRow),
    ),
    bookmark: reads((snapshotId: string): BookmarkRecord | null =>
      database.find(bookmarkRow, 'SELECT * FROM retained_bases WHERE snapshot_id = ?', snapshotId),
    ),
    /** Does nothing if the snapshot has a bookmark. */
    insertBookmark: freesSpace(
      ({ snapshotId, lineage, sizeBytes, creationTime, storedBytes, invalidReason }: BookmarkRecord): void =>
        database.run(
          `INSERT INTO retained_bases (snapshot_id, lineage, size_bytes, creation_time, stored_bytes,
            invalid_reason) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (snapshot_id) DO NOTHING`,
          snapshotId,
          lineage,
          sizeBytes,
          creationTime,
          storedBytes,
          invalidReason,
        ),
    ),
    /** Keeps the first reason if the bookmark was invalidated before. */
    invalidateBookmark: freesSpace((snapshotId: string, reason: string): void =>
      database.run(
        'UPDATE retained_bases SET invalid_reason = ? WHERE snapshot_id = ? AND invalid_reason IS NULL',
        reason,
        snapshotId,
      ),
    ),
    /** Invalidates all bookmarks, or none if the call fails. Returns how many were valid before. */
    invalidateAllBookmarks: freesSpace((reason: string): number =>
      database.runCounting('UPDATE retained_bases SET invalid_reason = ? WHERE invalid_reason IS NULL', reason),
    ),
    removeBookmark: freesSpace((snapshotId: string): void =>
      database.run('DELETE FROM retained_bases WHERE snapshot_id = ?', snapshotId),
    ),
  };
}

function begin(database: SqliteConnection, creates: readonly NewDevice[], deletes: readonly string[]): OpenTransaction {
  const pool = onlyPool(database);
  if (pool['opens'] !== null) throw new Error(`transaction ${pool['opens']} of the pool is open`);
  const insert = `INSERT INTO devices (object_id, device_id, kind, state, size_bytes, lineage, made_at, open)
    VALUES (?, ?, ?, 'creating', ?, ?, ?, 0)`;
  const ids = upcomingIds(database, creates.length);
  for (const [index, { objectId, kind, sizeBytes, lineage }] of creates.entries()) {
    const values = [ids[index], kind, sizeBytes, lineage, pool['transaction_id']];
    insertUnique(`${kind} ${objectId}`, () => database.run(insert, objectId, ...values));
  }
  const last = ids.at(-1);
  if (last !== undefined) database.run('UPDATE pool SET next_device_id = ?', follow(last));
  for (const objectId of deletes) {
    database.run("UPDATE devices SET state = 'deleting' WHERE object_id = ?", objectId);
  }
  database.run('UPDATE pool SET opens = transaction_id + 1');
  const begun = openTransaction(database);
  if (begun === null) throw new Error('the transaction that was opened is not there');
  return begun;
}

function openTransaction(database: SqliteConnection): OpenTransaction | null {
  const opens = onlyPool(database)['opens'] as bigint | null;
  if (opens === null) return null;
  const inState = (state: DeviceState) =>
    database.all('SELECT * FROM devices WHERE state = ? ORDER BY device_id', state).map(deviceRow);
  return { opens, creates: inState('creating'), deletes: inState('deleting') };
}

const follow = (id: number): number => (id >= LAST_DEVICE_ID ? FIRST_DEVICE_ID : id + 1);

/** The next ids that the ledger does not have, in a circle, so that no id comes again soon after it was freed. */
function upcomingIds(database: SqliteConnection, count: number): number[] {
  const ids: number[] = [];
  const first = Number(onlyPool(database)['next_device_id']);
  for (let id = first; ids.length < count; ) {
    const known = database.get('SELECT 1 FROM devices WHERE device_id = ?', id);
    if (known === undefined) ids.push(id);
    id = follow(id);
    if (id === first) throw CsiError.resourceExhausted('the pool has no device id left');
  }
  return ids;
}

function onlyPool(database: SqliteConnection): Row {
  const row = database.get('SELECT * FROM pool');
  if (row === undefined) throw new Error('the ledger was asked before its pool was made');
  return row;
}

function poolRow(row: Row): PoolRecord {
  const transactionId = row['stopped_transaction_id'] as bigint | null;
  return {
    uuid: String(row['uuid']),
    state: row['state'] as PoolRecord['state'],
    dataBlockBytes: row['data_block_bytes'] as bigint,
    labelledBytes: row['labelled_bytes'] as bigint | null,
    transactionId: row['transaction_id'] as bigint,
    holdsMetadataSnapshot: row['holds_metadata_snapshot'] === 1n,
    bootId: row['boot_id'] as string | null,
    passesDiscards: row['passes_discards'] === 1n,
    stopped:
      transactionId === null
        ? null
        : {
            transactionId,
            time: Number(row['stopped_time']),
            mappingRoot: row['stopped_mapping_root'] as bigint,
            detailsRoot: row['stopped_details_root'] as bigint,
          },
  };
}

function deviceRow(row: Row): DeviceRecord {
  return {
    objectId: String(row['object_id']),
    kind: row['kind'] as DeviceKind,
    sizeBytes: row['size_bytes'] as bigint,
    lineage: String(row['lineage']),
    deviceId: Number(row['device_id']),
    state: row['state'] as DeviceState,
    madeAt: row['made_at'] as bigint,
    promiseId: row['promise_id'] as string | null,
    open: row['open'] === 1n,
  };
}

function bookmarkRow(row: Row): BookmarkRecord {
  return {
    snapshotId: String(row['snapshot_id']),
    lineage: String(row['lineage']),
    sizeBytes: row['size_bytes'] as bigint,
    creationTime: Number(row['creation_time']),
    storedBytes: row['stored_bytes'] as bigint,
    invalidReason: row['invalid_reason'] as string | null,
  };
}
