/**
 * A pool and a catalogue of many volumes and snapshots, half of which are deleted and retained as bases, written
 * directly: rows and sparse files, within seconds. What a plugin would need hours for.
 */
import { closeSync, ftruncateSync, mkdirSync, openSync, writeFileSync } from 'node:fs';
import { newSnapshotId, newVolumeId, nodeKey } from '../../../src/base/csi/handles.js';
import { formatPoolId } from '../../../src/driver/backends/reflink/pool-layout.js';
import { listName } from '../../../src/driver/backends/retained/list-directory.js';
import { catalogueCalls, catalogueDefinition } from '../../../src/driver/catalogue/sqlite-catalogue.js';
import { SoundDatabase } from '../../../src/driver/database/sound-database.js';

export interface CatalogueSize {
  volumes: number;
  snapshots: number;
}

const POOL_ID = '00000000-0000-4000-8000-000000000000';
/** Their sum is held against what the pool has room for. */
const VOLUME_BYTES = 2 ** 20;
const LIST_BYTES = 4096;
const CAPABILITIES = JSON.stringify([{ accessType: 'block', accessMode: 'SINGLE_NODE_WRITER' }]);

/**
 * @param state the plugin's state directory, created here
 * @param pool an empty directory
 */
export function fillCatalogue(
  state: string,
  pool: string,
  poolName: string,
  nodeId: string,
  { volumes, snapshots }: CatalogueSize,
): void {
  mkdirSync(state, { recursive: true });
  for (const name of ['volumes', 'snapshots', 'initialized', 'lists']) mkdirSync(`${pool}/${name}`);
  writeFileSync(`${pool}/pool-id`, formatPoolId(POOL_ID));
  const sound = SoundDatabase.open(catalogueDefinition(`${state}/catalogue.sqlite`));
  const database = sound.connection;
  const calls = catalogueCalls(database);
  calls.registerPool(poolName, POOL_ID);
  writeFileSync(`${pool}/pool-owner`, `${calls.uuid()}\n`);
  const key = nodeKey(nodeId);
  const deletedNs = BigInt(Date.now()) * 1_000_000n;
  const ids = Array.from({ length: volumes }, () => newVolumeId(key));
  database.transaction(() => {
    for (const id of ids) {
      database.run(
        `INSERT INTO volumes (volume_id, name, pool, size_bytes, state, parameters, created_mutable_parameters,
           mutable_parameters, capabilities, pristine, awaits_growth, created_ns)
         VALUES (?, ?, ?, ?, 'ready', '{}', '{}', '{}', ?, 0, 0, 1)`,
        id,
        `filler ${id}`,
        poolName,
        VOLUME_BYTES,
        CAPABILITIES,
      );
      sparseFile(`${pool}/volumes/${id}`, VOLUME_BYTES);
      sparseFile(`${pool}/initialized/${id}`, 0);
    }
    const taken = Array.from({ length: snapshots }, () => newSnapshotId(key));
    for (const [index, id] of taken.entries()) {
      database.run(
        `INSERT INTO snapshots (snapshot_id, name, volume_id, pool, size_bytes, state, creation_time_ns, parameters, pristine)
         VALUES (?, ?, ?, ?, ?, 'ready', 1, '{}', 0)`,
        id,
        `filler ${id}`,
        ids[index % ids.length],
        poolName,
        VOLUME_BYTES,
      );
      // The oldest of each volume: a snapshot of the same volume follows after one of each of the others.
      const next = taken[index + volumes];
      if (index >= snapshots / 2 || next === undefined) {
        sparseFile(`${pool}/snapshots/${id}`, VOLUME_BYTES);
        continue;
      }
      sparseFile(`${pool}/lists/${listName({ baseId: id, targetId: next })}`, LIST_BYTES);
      const base = { snapshotId: id, deletedNs, storedBytes: BigInt(LIST_BYTES) };
      calls.removeSnapshot(id, { ...base, invalidReason: null });
    }
  });
  sound.close();
}

function sparseFile(path: string, sizeBytes: number): void {
  const file = openSync(path, 'w', 0o600);
  ftruncateSync(file, sizeBytes);
  closeSync(file);
}
