/**
 * The ledger's tables, as steps from one PRAGMA user_version to the next.
 *
 * A step that has shipped is never changed: a new one is added behind it.
 */

export const LEDGER_STEPS: readonly string[] = [
  `
  -- One row.
  CREATE TABLE pool (
    uuid TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('new', 'formatting', 'ready')),
    data_block_bytes INTEGER NOT NULL CHECK (data_block_bytes > 0),
    -- Size of the data device when its label was written; null: it has none.
    labelled_bytes INTEGER CHECK (labelled_bytes > 0),
    transaction_id INTEGER NOT NULL,
    -- Null: no transaction is open.
    opens INTEGER CHECK (opens = transaction_id + 1),
    next_device_id INTEGER NOT NULL,
    holds_metadata_snapshot INTEGER NOT NULL CHECK (holds_metadata_snapshot IN (0, 1)),
    boot_id TEXT,
    passes_discards INTEGER NOT NULL CHECK (passes_discards IN (0, 1)),
    stopped_transaction_id INTEGER,
    stopped_time INTEGER,
    stopped_mapping_root INTEGER,
    stopped_details_root INTEGER
  ) STRICT;

  CREATE TABLE devices (
    object_id TEXT PRIMARY KEY,
    device_id INTEGER NOT NULL UNIQUE CHECK (device_id BETWEEN 1 AND 16777215),
    kind TEXT NOT NULL CHECK (kind IN ('volume', 'snapshot')),
    state TEXT NOT NULL CHECK (state IN ('creating', 'live', 'deleting')),
    size_bytes INTEGER NOT NULL CHECK (size_bytes > 0),
    lineage TEXT NOT NULL,
    made_at INTEGER NOT NULL,
    open INTEGER NOT NULL CHECK (open IN (0, 1))
  ) STRICT;
  CREATE INDEX devices_by_state ON devices(state) WHERE state <> 'live';

  CREATE TABLE initialized_marks (
    volume_id TEXT PRIMARY KEY
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE retained_bases (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    snapshot_id TEXT NOT NULL UNIQUE,
    lineage TEXT NOT NULL,
    size_bytes INTEGER NOT NULL,
    creation_time INTEGER NOT NULL,
    stored_bytes INTEGER NOT NULL,
    invalid_reason TEXT
  ) STRICT;
  `,
  `
  -- More kinds of devices. SQLite cannot change the CHECK of a table.
  CREATE TABLE new_devices (
    object_id TEXT PRIMARY KEY,
    device_id INTEGER NOT NULL UNIQUE CHECK (device_id BETWEEN 1 AND 16777215),
    kind TEXT NOT NULL CHECK (kind IN ('volume', 'snapshot', 'replica', 'seal', 'opened')),
    state TEXT NOT NULL CHECK (state IN ('creating', 'live', 'deleting')),
    size_bytes INTEGER NOT NULL CHECK (size_bytes > 0),
    lineage TEXT NOT NULL,
    made_at INTEGER NOT NULL,
    open INTEGER NOT NULL CHECK (open IN (0, 1)),
    -- Of a complete replica that is promised to the node of its snapshot.
    promise_id TEXT
  ) STRICT;
  INSERT INTO new_devices SELECT *, NULL FROM devices;
  DROP TABLE devices;
  ALTER TABLE new_devices RENAME TO devices;
  CREATE INDEX devices_by_state ON devices(state) WHERE state <> 'live';
  `,
];
