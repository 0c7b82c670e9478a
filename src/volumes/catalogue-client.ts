/**
 * The catalogue for the event loop: each call goes to the thread that owns the database.
 */
import { Piscina } from 'piscina';
import { CsiError } from '../errors.js';
import type { CatalogueAnswer, CatalogueTask } from './catalogue-worker.js';
import type { AsyncCatalogue, Catalogue } from './records.js';

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

export interface OpenCatalogue extends AsyncCatalogue {
  close(): Promise<void>;
}

/** Opens the catalogue file. Rejects with FAILED_PRECONDITION if another process has it open. */
export async function openCatalogue(file: string): Promise<OpenCatalogue> {
  const pool = new Piscina<CatalogueTask, CatalogueAnswer>({
    filename: new URL('./catalogue-worker.js', import.meta.url).href,
    minThreads: 1,
    maxThreads: 1,
    idleTimeout: 2 ** 31 - 1,
    workerData: { file },
  });
  pool.on('error', () => undefined);
  const call = async (method: CatalogueTask['method'], args: unknown[]): Promise<unknown> => {
    const answer = await pool.run({ method, args });
    if (!answer.ok) throw new CsiError(answer.code, answer.message, { cause: answer.cause });
    return answer.value;
  };
  const methods = Object.fromEntries(
    (Object.keys(METHODS) as (keyof Catalogue)[]).map((method) => [
      method,
      (...args: unknown[]) => call(method, args),
    ]),
  ) as AsyncCatalogue;
  try {
    await methods.unfinished();
  } catch (thrown) {
    await pool.destroy();
    throw thrown;
  }
  return Object.assign(methods, {
    close: async () => {
      await call('close', []);
      await pool.destroy();
    },
  });
}
