/**
 * The catalogue for the event loop: each call goes to the thread that owns the database.
 */
import { type OpenDatabase, openDatabase } from '../database/database-thread.js';
import type { Catalogue } from './records.js';

/** All of them: the compiler refuses a name too few. */
const METHODS = {
  uuid: true,
  poolUuid: true,
  registerPool: true,
  volumeById: true,
  volumeByName: true,
  listVolumes: true,
  insertVolume: true,
  setVolumeState: true,
  markVolumeUsed: true,
  markVolumeGrown: true,
  setVolumeSize: true,
  setMutableParameters: true,
  removeVolume: true,
  snapshotById: true,
  snapshotByName: true,
  listSnapshots: true,
  insertSnapshot: true,
  commitSnapshot: true,
  setSnapshotState: true,
  removeSnapshot: true,
  groupById: true,
  groupByName: true,
  listGroups: true,
  snapshotsOfGroup: true,
  insertGroup: true,
  commitGroup: true,
  setGroupState: true,
  removeGroup: true,
  keptBaseById: true,
  listKeptBases: true,
  loseKeptBase: true,
  removeKeptBase: true,
  controllerPublications: true,
  listControllerPublications: true,
  putControllerPublication: true,
  removeControllerPublication: true,
  stagings: true,
  putStaging: true,
  removeStaging: true,
  publications: true,
  publicationAt: true,
  putPublication: true,
  removePublication: true,
  unfinished: true,
} satisfies Record<keyof Catalogue, true>;

export type OpenCatalogue = OpenDatabase<Catalogue>;

/** Opens the catalogue file. Rejects with FAILED_PRECONDITION if another process has it open. */
export function openCatalogue(file: string): Promise<OpenCatalogue> {
  const worker = new URL('./catalogue-worker.js', import.meta.url);
  return openDatabase<Catalogue>(worker, { file }, METHODS, 'unfinished');
}
