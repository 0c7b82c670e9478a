/** Everything in a catalogue, read from a copy: for commands that inspect a node, also while a plugin runs. */
import { readCopy } from '../database/copy.js';
import type {
  CopiedVolume,
  GroupSnapshotRecord,
  PublicationRecord,
  ReplicaRecord,
  RetainedBaseRecord,
  SnapshotRecord,
  StagingRecord,
  VolumeRecord,
} from './records.js';
import * as rows from './rows.js';
import { catalogueCalls, catalogueDefinition } from './sqlite-catalogue.js';

export interface CatalogueContents {
  uuid: string;
  /** Null before the first start has recorded it. */
  nodeId: string | null;
  pools: { name: string; uuid: string }[];
  /** Volumes in every state but deleted. */
  volumes: VolumeRecord[];
  /** By volumes of this node. */
  copied: ReadonlyMap<string, CopiedVolume>;
  /** Ids of volumes that are half restored. */
  halfRestored: ReadonlySet<string>;
  snapshots: SnapshotRecord[];
  groups: GroupSnapshotRecord[];
  retainedBases: RetainedBaseRecord[];
  replicas: ReplicaRecord[];
  stagings: StagingRecord[];
  publications: PublicationRecord[];
}

/** Reads a catalogue. NOT_FOUND if the file does not exist, FAILED_PRECONDITION if it cannot be read or is damaged. */
export function catalogueContents(file: string): Promise<CatalogueContents> {
  return readCopy(catalogueDefinition, file, (database) => {
    const calls = catalogueCalls(database);
    const pools = database.all('SELECT name, uuid FROM pools ORDER BY name').map((row) => ({
      name: String(row['name']),
      uuid: String(row['uuid']),
    }));
    return {
      uuid: calls.uuid(),
      nodeId: calls.nodeId(),
      pools,
      volumes: database.all("SELECT * FROM volumes WHERE state <> 'deleted' ORDER BY volume_id").map(rows.volumeRow),
      copied: new Map(
        database
          .all('SELECT * FROM copied_volumes')
          .map((row) => [String(row['volume_id']), rows.copiedVolumeRow(row)]),
      ),
      halfRestored: new Set(database.all('SELECT volume_id FROM restore_marks').map((row) => String(row['volume_id']))),
      snapshots: database.all('SELECT * FROM snapshots ORDER BY sequence').map(rows.snapshotRow),
      groups: database.all('SELECT * FROM group_snapshots ORDER BY group_snapshot_id').map(rows.groupRow),
      retainedBases: pools.flatMap(({ name }) => calls.listRetainedBases(name)),
      replicas: calls.listReplicas(),
      stagings: database.all('SELECT * FROM stagings').map(rows.staging),
      publications: database.all('SELECT * FROM publications').map(rows.publicationRow),
    };
  });
}
