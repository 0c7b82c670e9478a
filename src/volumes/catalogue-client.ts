/**
 * The catalogue for the event loop: each call goes to the thread that owns the database.
 */
import { Piscina } from 'piscina';
import { CsiError } from '../errors.js';
import type { CatalogueAnswer, CatalogueTask } from './catalogue-worker.js';
import type { AsyncCatalogue, Catalogue } from './records.js';

const METHODS: readonly (keyof Catalogue)[] = [
  'poolUuid',
  'registerPool',
  'volumeById',
  'volumeByName',
  'listVolumes',
  'insertVolume',
  'setVolumeState',
  'markVolumeUsed',
  'removeVolume',
  'snapshotById',
  'snapshotByName',
  'listSnapshots',
  'insertSnapshot',
  'commitSnapshot',
  'setSnapshotState',
  'removeSnapshot',
  'stagings',
  'putStaging',
  'removeStaging',
  'publications',
  'publicationAt',
  'putPublication',
  'removePublication',
  'unfinished',
];

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
    METHODS.map((method) => [method, (...args: unknown[]) => call(method, args)]),
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
