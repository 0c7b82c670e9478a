/**
 * Volumes that a command restores in place. Until it has written everything, a volume holds parts of two states: it is marked as
 * half restored, and nobody but the command may stage it. The mark is in the catalogue, so it outlives the command and the plugin.
 */
import { randomBytes } from 'node:crypto';
import type { VolumeCapability } from '../../base/csi/volume-capability.js';
import { CsiError } from '../../base/errors.js';
import type { AsyncCatalogue } from '../catalogue/catalogue-client.js';
import type { RestoreMark, StagingRecord, VolumeRecord } from '../catalogue/records.js';
import { type OperationLocks, volumeKey } from './operation-locks.js';
import { ifReady } from './ready-volume.js';

export interface InPlaceRestoresOptions {
  catalogue: Pick<AsyncCatalogue, 'volumeUses' | 'putRestoreMark' | 'removeRestoreMark'>;
  locks: Pick<OperationLocks, 'run'>;
  /** Where a volume is in use; null if it is not. */
  placeInUse(volume: VolumeRecord, stagings: readonly StagingRecord[]): Promise<string | null>;
}

export class InPlaceRestores {
  constructor(private readonly options: InPlaceRestoresOptions) {}

  /**
   * Marks the volume. A mark that is there keeps its name for a snapshot and gets a new token, so that of two commands only the last
   * one can stage the volume.
   *
   * @throws CsiError FAILED_PRECONDITION while the volume is in use, NOT_FOUND unless this node has it
   */
  begin(volumeId: string, command: string, signal?: AbortSignal): Promise<{ mark: RestoreMark; isNew: boolean }> {
    const { catalogue, locks, placeInUse } = this.options;
    const work = async () => {
      const { volume, stagings, restore } = await catalogue.volumeUses(volumeId);
      const place = await placeInUse(ifReady(volume, volumeId), stagings);
      if (place !== null) {
        throw CsiError.failedPrecondition(
          `volume ${volumeId} is in use at ${place}, so it cannot be restored in place: stop what uses it first`,
        );
      }
      const snapshotName = restore?.snapshotName ?? `before-restore-${randomBytes(8).toString('hex')}`;
      const mark = { volumeId, token: randomBytes(16).toString('hex'), command, snapshotName };
      await catalogue.putRestoreMark(mark);
      return { mark, isNew: restore === null };
    };
    return locks.run([volumeKey(volumeId)], work, signal);
  }

  /** Removes the mark with that token. FAILED_PRECONDITION if it has another one by now. Nothing if there is no mark. */
  end(volumeId: string, token: string, signal?: AbortSignal): Promise<void> {
    const { catalogue, locks } = this.options;
    const work = async () => {
      const { restore } = await catalogue.volumeUses(volumeId);
      if (restore === null) return;
      if (restore.token !== token) throw begunAgain(volumeId);
      await catalogue.removeRestoreMark(volumeId);
    };
    return locks.run([volumeKey(volumeId)], work, signal);
  }
}

/**
 * FAILED_PRECONDITION if the volume is half restored, unless the command that restores it presents its token. A token of a restore
 * that has ended is refused, too: what its command would write is older than what the volume holds now.
 *
 * @param token null if none is presented
 */
export function assertNotHalfRestored(
  { volumeId }: VolumeRecord,
  mark: RestoreMark | null,
  { accessType }: VolumeCapability,
  token: string | null,
): void {
  if (mark === null && token === null) return;
  if (mark === null || (token !== null && token !== mark.token)) throw begunAgain(volumeId);
  if (token !== null && accessType === 'block') return;
  throw CsiError.failedPrecondition(
    `volume ${volumeId} is half restored, so it must not be used. Run this on its node, which finishes the restore: ${mark.command}`,
  );
}

const begunAgain = (volumeId: string): CsiError =>
  CsiError.failedPrecondition(
    `another command has begun to restore volume ${volumeId} in place, or has finished it: run the command again when that has ended`,
  );
