/**
 * The catalogue's tables, as steps from one PRAGMA user_version to the next.
 *
 * A step that has been released is never changed: a new one is added behind it.
 */
export const CATALOGUE_STEPS: readonly string[] = [
  `
  CREATE TABLE catalogue (
    uuid TEXT NOT NULL,
    -- NULL until the first start has recorded it.
    node_id TEXT
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
    created_mutable_parameters TEXT NOT NULL,
    mutable_parameters TEXT NOT NULL,
    capabilities TEXT NOT NULL,
    source_snapshot_id TEXT,
    source_volume_id TEXT,
    pristine INTEGER NOT NULL CHECK (pristine IN (0, 1)),
    awaits_growth INTEGER NOT NULL CHECK (awaits_growth IN (0, 1)),
    created_ns INTEGER NOT NULL
  ) STRICT;
  CREATE UNIQUE INDEX volumes_by_name ON volumes(name) WHERE state <> 'deleted';

  CREATE TABLE group_snapshots (
    group_snapshot_id TEXT PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    state TEXT NOT NULL CHECK (state IN ('creating', 'ready', 'deleting')),
    creation_time_ns INTEGER NOT NULL,
    parameters TEXT NOT NULL
  ) STRICT;

  CREATE TABLE snapshots (
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
    pristine INTEGER NOT NULL CHECK (pristine IN (0, 1)),
    -- Members of groups have no name.
    CHECK ((name IS NULL) = (group_snapshot_id IS NOT NULL))
  ) STRICT;
  CREATE INDEX snapshots_by_volume ON snapshots(volume_id);
  CREATE INDEX snapshots_by_group ON snapshots(group_snapshot_id);

  -- Volumes are not referred to: a row may outlive the last trace of its volume for a moment.
  CREATE TABLE retained_bases (
    snapshot_id TEXT PRIMARY KEY,
    volume_id TEXT NOT NULL,
    pool TEXT NOT NULL REFERENCES pools(name),
    sequence INTEGER NOT NULL,
    size_bytes INTEGER NOT NULL CHECK (size_bytes > 0),
    creation_time_ns INTEGER NOT NULL,
    deleted_ns INTEGER NOT NULL,
    stored_bytes INTEGER NOT NULL CHECK (stored_bytes >= 0),
    invalid_reason TEXT,
    invalid_ns INTEGER,
    CHECK ((invalid_reason IS NULL) = (invalid_ns IS NULL))
  ) STRICT;
  CREATE INDEX retained_bases_by_pool ON retained_bases(pool, sequence);
  CREATE INDEX retained_bases_by_volume ON retained_bases(volume_id, sequence);

  CREATE TABLE stagings (
    volume_id TEXT NOT NULL REFERENCES volumes(volume_id) ON DELETE CASCADE,
    staging_path TEXT NOT NULL,
    resolved_path TEXT,
    capability TEXT NOT NULL,
    PRIMARY KEY (volume_id, staging_path)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE publications (
    target_path TEXT PRIMARY KEY,
    resolved_path TEXT,
    volume_id TEXT NOT NULL REFERENCES volumes(volume_id) ON DELETE CASCADE,
    staging_path TEXT NOT NULL,
    capability TEXT NOT NULL,
    read_only INTEGER NOT NULL CHECK (read_only IN (0, 1)),
    pod_uid TEXT
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX publications_by_volume ON publications(volume_id);

  CREATE TABLE controller_publications (
    volume_id TEXT NOT NULL REFERENCES volumes(volume_id) ON DELETE CASCADE,
    node_id TEXT NOT NULL,
    capability TEXT NOT NULL,
    read_only INTEGER NOT NULL CHECK (read_only IN (0, 1)),
    PRIMARY KEY (volume_id, node_id)
  ) STRICT, WITHOUT ROWID;
  `,
  `
  -- Snapshots of other nodes: their ids, volumes and sequences are those of their own nodes.
  CREATE TABLE replicas (
    snapshot_id TEXT PRIMARY KEY,
    volume_id TEXT NOT NULL,
    pool TEXT NOT NULL REFERENCES pools(name),
    size_bytes INTEGER NOT NULL CHECK (size_bytes > 0),
    sequence INTEGER NOT NULL,
    creation_time_ns INTEGER NOT NULL,
    pristine INTEGER NOT NULL CHECK (pristine IN (0, 1)),
    file_system TEXT,
    capabilities TEXT NOT NULL,
    catalogue_uuid TEXT NOT NULL,
    pool_uuid TEXT NOT NULL,
    base_id TEXT,
    -- The name of the only volume that is made from it; NULL for any volume from the snapshot.
    clone_name TEXT,
    -- What its own node has been promised; NULL: nothing, and the replica goes when nobody needs it.
    promise_id TEXT,
    -- NULL once the replica is complete.
    next_offset INTEGER CHECK (next_offset BETWEEN 0 AND size_bytes),
    asked_ns INTEGER NOT NULL,
    used_ns INTEGER NOT NULL
  ) STRICT;
  CREATE INDEX replicas_by_volume ON replicas(volume_id, sequence);

  -- 1 until another node keeps a copy: callers are told that the snapshot is not ready, whatever its state.
  ALTER TABLE snapshots ADD COLUMN awaits_copy INTEGER NOT NULL DEFAULT 0 CHECK (awaits_copy IN (0, 1));

  -- Copies of snapshots of this node that other nodes have promised, or are to promise. A row outlives its snapshot until the
  -- other node has removed its copy.
  CREATE TABLE copies (
    promise_id TEXT PRIMARY KEY,
    snapshot_id TEXT NOT NULL,
    node_id TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('pending', 'kept', 'ending'))
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX copies_by_snapshot ON copies(snapshot_id);
  -- Routers ask for these every few seconds.
  CREATE INDEX copies_unsettled ON copies(state) WHERE state <> 'kept';

  -- Volumes that have had copies on other nodes, or were to be moved, so that others may have taken their places.
  CREATE TABLE copied_volumes (
    volume_id TEXT PRIMARY KEY,
    -- The volume that has taken its place; NULL: none has.
    superseded_by TEXT,
    -- 1 while it is not to be staged, because a volume is made that is to take its place.
    cordoned INTEGER NOT NULL DEFAULT 0 CHECK (cordoned IN (0, 1))
  ) STRICT, WITHOUT ROWID;

  -- Volumes of any node that those of this node have taken the place of. The new ones may be deleted meanwhile.
  CREATE TABLE successions (
    old_volume_id TEXT PRIMARY KEY,
    new_volume_id TEXT NOT NULL,
    -- 1 once the node of the old volume refuses its staging.
    told INTEGER NOT NULL CHECK (told IN (0, 1))
  ) STRICT, WITHOUT ROWID;

  -- Volumes that are half restored.
  CREATE TABLE restore_marks (
    volume_id TEXT PRIMARY KEY,
    -- Whoever presents it may stage the volume.
    token TEXT NOT NULL,
    -- The command that finishes the restore.
    command TEXT NOT NULL,
    -- For the snapshot of what the volume held before.
    snapshot_name TEXT NOT NULL
  ) STRICT, WITHOUT ROWID;
  `,
];
