/**
 * The catalogue's tables, as steps from one PRAGMA user_version to the next.
 *
 * A step that has shipped is never changed: a new one is added behind it.
 */
export const CATALOGUE_STEPS: readonly string[] = [
  `
  CREATE TABLE catalogue (
    uuid TEXT NOT NULL
  ) STRICT;
  INSERT INTO catalogue (uuid) VALUES (lower(hex(randomblob(16))));

  CREATE TABLE pools (
    name TEXT PRIMARY KEY,
    uuid TEXT NOT NULL UNIQUE
  ) STRICT;

  CREATE TABLE volumes (
    volume_id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    pool TEXT NOT NULL REFERENCES pools(name),
    size_bytes INTEGER NOT NULL CHECK (size_bytes > 0),
    state TEXT NOT NULL CHECK (state IN ('creating', 'ready', 'deleting', 'deleted')),
    parameters TEXT NOT NULL,
    capabilities TEXT NOT NULL,
    source_snapshot_id TEXT,
    fresh INTEGER NOT NULL CHECK (fresh IN (0, 1)),
    created_ns INTEGER NOT NULL
  ) STRICT;
  CREATE UNIQUE INDEX volumes_by_name ON volumes(name) WHERE state <> 'deleted';

  CREATE TABLE snapshots (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    snapshot_id TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL UNIQUE,
    volume_id TEXT NOT NULL REFERENCES volumes(volume_id),
    pool TEXT NOT NULL REFERENCES pools(name),
    size_bytes INTEGER NOT NULL CHECK (size_bytes > 0),
    state TEXT NOT NULL CHECK (state IN ('creating', 'ready', 'deleting')),
    creation_time_ns INTEGER NOT NULL,
    parameters TEXT NOT NULL,
    fresh INTEGER NOT NULL CHECK (fresh IN (0, 1))
  ) STRICT;
  CREATE INDEX snapshots_by_volume ON snapshots(volume_id);

  CREATE TABLE stagings (
    volume_id TEXT NOT NULL REFERENCES volumes(volume_id) ON DELETE CASCADE,
    staging_path TEXT NOT NULL,
    capability TEXT NOT NULL,
    PRIMARY KEY (volume_id, staging_path)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE publications (
    target_path TEXT PRIMARY KEY,
    volume_id TEXT NOT NULL REFERENCES volumes(volume_id) ON DELETE CASCADE,
    staging_path TEXT NOT NULL,
    capability TEXT NOT NULL,
    read_only INTEGER NOT NULL CHECK (read_only IN (0, 1))
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX publications_by_volume ON publications(volume_id);
  `,
  `
  ALTER TABLE volumes ADD COLUMN created_mutable_parameters TEXT NOT NULL DEFAULT '{}';
  ALTER TABLE volumes ADD COLUMN mutable_parameters TEXT NOT NULL DEFAULT '{}';
  ALTER TABLE volumes ADD COLUMN source_volume_id TEXT;
  ALTER TABLE publications ADD COLUMN pod_uid TEXT;

  CREATE TABLE group_snapshots (
    group_snapshot_id TEXT PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    state TEXT NOT NULL CHECK (state IN ('creating', 'ready', 'deleting')),
    creation_time_ns INTEGER NOT NULL,
    parameters TEXT NOT NULL
  ) STRICT;

  -- Members of groups have no name, and SQLite drops no NOT NULL from a column.
  CREATE TABLE new_snapshots (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    snapshot_id TEXT NOT NULL UNIQUE,
    name TEXT UNIQUE,
    group_snapshot_id TEXT REFERENCES group_snapshots(group_snapshot_id),
    volume_id TEXT NOT NULL REFERENCES volumes(volume_id),
    pool TEXT NOT NULL REFERENCES pools(name),
    size_bytes INTEGER NOT NULL CHECK (size_bytes > 0),
    state TEXT NOT NULL CHECK (state IN ('creating', 'ready', 'deleting')),
    creation_time_ns INTEGER NOT NULL,
    parameters TEXT NOT NULL,
    fresh INTEGER NOT NULL CHECK (fresh IN (0, 1)),
    CHECK ((name IS NULL) = (group_snapshot_id IS NOT NULL))
  ) STRICT;
  INSERT INTO new_snapshots (sequence, snapshot_id, name, volume_id, pool, size_bytes, state,
      creation_time_ns, parameters, fresh)
    SELECT sequence, snapshot_id, name, volume_id, pool, size_bytes, state,
      creation_time_ns, parameters, fresh FROM snapshots;
  DROP TABLE snapshots;
  ALTER TABLE new_snapshots RENAME TO snapshots;
  CREATE INDEX snapshots_by_volume ON snapshots(volume_id);
  CREATE INDEX snapshots_by_group ON snapshots(group_snapshot_id);

  CREATE TABLE controller_publications (
    volume_id TEXT NOT NULL REFERENCES volumes(volume_id) ON DELETE CASCADE,
    node_id TEXT NOT NULL,
    capability TEXT NOT NULL,
    read_only INTEGER NOT NULL CHECK (read_only IN (0, 1)),
    PRIMARY KEY (volume_id, node_id)
  ) STRICT, WITHOUT ROWID;
  `,
  `
  ALTER TABLE volumes ADD COLUMN awaits_growth INTEGER NOT NULL DEFAULT 0
    CHECK (awaits_growth IN (0, 1));
  `,
  `
  -- Volumes are not referred to: a row may outlive the last trace of its volume for a moment.
  CREATE TABLE kept_bases (
    snapshot_id TEXT PRIMARY KEY,
    volume_id TEXT NOT NULL,
    pool TEXT NOT NULL REFERENCES pools(name),
    sequence INTEGER NOT NULL,
    size_bytes INTEGER NOT NULL CHECK (size_bytes > 0),
    creation_time_ns INTEGER NOT NULL,
    deleted_ns INTEGER NOT NULL,
    stored_bytes INTEGER NOT NULL CHECK (stored_bytes >= 0),
    lost_reason TEXT,
    lost_ns INTEGER,
    CHECK ((lost_reason IS NULL) = (lost_ns IS NULL))
  ) STRICT;
  CREATE INDEX kept_bases_by_pool ON kept_bases(pool, sequence);
  `,
  `
  -- NULL in rows of versions that did not write it down.
  ALTER TABLE stagings ADD COLUMN resolved_path TEXT;
  ALTER TABLE publications ADD COLUMN resolved_path TEXT;
  `,
  `
  -- NULL until the first start of a version that writes it down.
  ALTER TABLE catalogue ADD COLUMN node_id TEXT;
  -- Keys in handles that this catalogue made under other node ids, before it kept one.
  CREATE TABLE former_node_keys (
    node_key TEXT PRIMARY KEY
  ) STRICT, WITHOUT ROWID;
  `,
];
