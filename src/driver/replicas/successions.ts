/** Volumes of this node that others have taken the place of, and volumes of other nodes that those of this one have replaced. */
import { CsiError } from '../../base/errors.js';
import type { AsyncCatalogue } from '../catalogue/catalogue-client.js';
import type { SuccessionRecord } from '../catalogue/records.js';
import { type OperationLocks, volumeKey } from '../volumes/operation-locks.js';

export interface SuccessionsOptions {
  catalogue: Pick<AsyncCatalogue, 'volumeById' | 'stagings' | 'supersedeVolume' | 'putSuccession' | 'listSuccessions'>;
  locks: OperationLocks;
}

export class Successions {
  constructor(private readonly options: SuccessionsOptions) {}

  /** From now on the old volume is not staged. FAILED_PRECONDITION while it is staged. Nothing if this node does not have it. */
  async supersede({ oldVolumeId, newVolumeId }: SuccessionRecord, signal?: AbortSignal): Promise<void> {
    const { catalogue, locks } = this.options;
    const release = await locks.acquireFor([volumeKey(oldVolumeId)], signal);
    try {
      const [staging] = await catalogue.stagings(oldVolumeId);
      if (staging !== undefined) {
        throw CsiError.failedPrecondition(
          `volume ${oldVolumeId} is staged at ${staging.stagingPath}, so ${newVolumeId} cannot take its place: stop what uses it first`,
        );
      }
      await catalogue.supersedeVolume(oldVolumeId, newVolumeId);
    } finally {
      release();
    }
  }

  /** Records that a volume of this node has replaced another one. NOT_FOUND unless this node has it. */
  async record(succession: SuccessionRecord): Promise<void> {
    const { newVolumeId } = succession;
    const volume = await this.options.catalogue.volumeById(newVolumeId);
    if (volume?.state !== 'ready') {
      throw CsiError.notFound(`new_volume_id: volume ${newVolumeId} does not exist on this node`);
    }
    await this.options.catalogue.putSuccession(succession);
  }

  list(): Promise<SuccessionRecord[]> {
    return this.options.catalogue.listSuccessions();
  }
}
