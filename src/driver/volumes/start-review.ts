/**
 * The part of a start that no call has to wait for, once for each pool: makes the catalogue and the pool agree on the retained
 * bases, and compares the sizes of the snapshots. Runs beside the calls. The review of the bases takes their locks; the
 * comparison needs none, because neither a finished snapshot nor its row ever changes its size.
 */
import { CsiError } from '../../base/errors.js';
import type { Logger } from '../../base/logger.js';
import { Periodic } from '../../base/periodic.js';
import type { Backend } from '../backends/backend.js';
import type { AsyncCatalogue } from '../catalogue/catalogue-client.js';
import { compareObjects, inWords, recordedObjects } from './pool-comparison.js';
import type { RetainedBases } from './retained-bases.js';

export interface StartReviewOptions {
  /** The pools that are served now. */
  pools(): readonly Backend[];
  catalogue: Pick<AsyncCatalogue, 'objectsIn'>;
  retainedBases: Pick<RetainedBases, 'review'>;
  /** Whether the catalogue has lost rows: then no base is removed, because its record may be lost. */
  lacksRows(): boolean;
  logger: Pick<Logger, 'info' | 'warn'>;
}

/** Call start() whenever pools have started. */
export class StartReview extends Periodic {
  readonly #reviewed = new WeakSet<Backend>();

  constructor(private readonly options: StartReviewOptions) {
    super(0, async () => {
      for (const backend of options.pools()) {
        if (this.isStopped) break;
        if (!this.#reviewed.has(backend)) await this.#review(backend);
        this.#reviewed.add(backend);
      }
      return null;
    });
  }

  async #review(backend: Backend): Promise<void> {
    const { retainedBases, lacksRows, logger } = this.options;
    const { pool } = backend;
    try {
      if (!lacksRows()) await retainedBases.review(backend);
      const differences = await this.#resizedSnapshots(backend);
      if (differences.length === 0) logger.info({ pool }, 'reviewed the pool');
      else logger.warn({ pool, differences }, 'reviewed the pool');
    } catch (thrown) {
      logger.warn({ pool, err: CsiError.from(thrown) }, 'could not review the pool');
    }
  }

  async #resizedSnapshots(backend: Backend): Promise<string[]> {
    const { snapshots: held } = await backend.list();
    const { snapshots } = await this.options.catalogue.objectsIn(backend.pool);
    const found = compareObjects(held, recordedObjects(snapshots), () => true);
    // Snapshots may be taken and deleted meanwhile.
    return found.filter(({ kind }) => kind === 'resized').map((each) => inWords(backend.pool, each));
  }
}
