/**
 * Volumes of this node whose places others have taken, or are to take, and volumes of other nodes that those of this one have
 * replaced.
 */
import { CsiError } from '../../base/errors.js';
import type { AsyncCatalogue } from '../catalogue/catalogue-client.js';
import type { StagingRecord, SuccessionRecord, VolumeRecord } from '../catalogue/records.js';
import { type OperationLocks, volumeKey } from '../volumes/operation-locks.js';

export interface SuccessionsOptions {
  catalogue: Pick<
    AsyncCatalogue,
    'volumeUses' | 'volumeById' | 'supersedeVolume' | 'setCordon' | 'putSuccession' | 'listSuccessions'
  >;
  locks: OperationLocks;
  /** Where a volume is in use; null if it is not. */
  placeInUse(volume: VolumeRecord, stagings: readonly StagingRecord[]): Promise<string | null>;
}

export class Successions {
  constructor(private readonly options: SuccessionsOptions) {}

  /** From now on the old volume is not staged. FAILED_PRECONDITION while it is in use. Nothing if this node does not have it. */
  supersede({ oldVolumeId, newVolumeId }: SuccessionRecord, signal?: AbortSignal): Promise<void> {
    return this.#locked(oldVolumeId, signal, async () => {
      await this.#assertUnused(oldVolumeId, `${newVolumeId} cannot take its place`);
      await this.options.catalogue.supersedeVolume(oldVolumeId, newVolumeId);
    });
  }

  /**
   * From now on the volume is not staged, until its cordon is undone. FAILED_PRECONDITION while it is in use, NOT_FOUND unless this
   * node has it.
   */
  cordon(volumeId: string, signal?: AbortSignal): Promise<void> {
    return this.#locked(volumeId, signal, async () => {
      await this.#assertExists(volumeId, 'volume_id');
      await this.#assertUnused(volumeId, 'it cannot be cordoned');
      await this.options.catalogue.setCordon(volumeId, true);
    });
  }

  /** FAILED_PRECONDITION if another volume has taken its place. Nothing if it is not cordoned. */
  uncordon(volumeId: string, signal?: AbortSignal): Promise<void> {
    return this.#locked(volumeId, signal, async () => {
      const { copied } = await this.options.catalogue.volumeUses(volumeId);
      if (copied === null) return;
      if (copied.supersededBy !== null) {
        throw CsiError.failedPrecondition(
          `volume ${volumeId} cannot be used again: ${copied.supersededBy} has taken its place`,
        );
      }
      await this.options.catalogue.setCordon(volumeId, false);
    });
  }

  /** Records that a volume of this node has replaced another one. NOT_FOUND unless this node has it, or has recorded that before. */
  async record(succession: SuccessionRecord): Promise<void> {
    const { oldVolumeId, newVolumeId } = succession;
    const isKnown = (await this.list()).some(
      (each) => each.oldVolumeId === oldVolumeId && each.newVolumeId === newVolumeId,
    );
    if (!isKnown) await this.#assertExists(newVolumeId, 'new_volume_id');
    await this.options.catalogue.putSuccession(succession);
  }

  list(): Promise<SuccessionRecord[]> {
    return this.options.catalogue.listSuccessions();
  }

  /** Those whose old volume may still be staged by its node, which could not be told. */
  async untold(): Promise<SuccessionRecord[]> {
    return (await this.list()).filter(({ isTold }) => !isTold);
  }

  async #locked(volumeId: string, signal: AbortSignal | undefined, work: () => Promise<void>): Promise<void> {
    const release = await this.options.locks.acquireFor([volumeKey(volumeId)], signal);
    try {
      await work();
    } finally {
      release();
    }
  }

  async #assertExists(volumeId: string, field: string): Promise<void> {
    const volume = await this.options.catalogue.volumeById(volumeId);
    if (volume?.state !== 'ready') throw CsiError.notFound(`${field}: volume ${volumeId} does not exist on this node`);
  }

  async #assertUnused(volumeId: string, so: string): Promise<void> {
    const { volume, stagings } = await this.options.catalogue.volumeUses(volumeId);
    const place = volume === null ? null : await this.options.placeInUse(volume, stagings);
    if (place === null) return;
    throw CsiError.failedPrecondition(`volume ${volumeId} is in use at ${place}, so ${so}: stop what uses it first`);
  }
}
