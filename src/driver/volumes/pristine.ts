/**
 * Whether only the plugin has written to a volume, so that it may be formatted.
 *
 * Formatting cannot be reverted, so two independent records have to agree: the volume's row and its
 * pool's mark. A catalogue restored from a backup may call a volume pristine that has held data since;
 * its pool knows better.
 */
import type { Backend } from '../backends/backend.js';
import type { AsyncCatalogue } from '../catalogue/catalogue-client.js';
import type { VolumeRecord } from '../catalogue/records.js';

/** Whether only the plugin has ever written to the volume. The caller holds the volume's lock. */
export async function isPristine(
  backend: Backend,
  { volumeId, pristine }: Pick<VolumeRecord, 'volumeId' | 'pristine'>,
): Promise<boolean> {
  return pristine && !(await backend.marks.has(volumeId));
}

/**
 * Called before anyone else can write to the volume. Marks the pool before the row: if a kill came after
 * the row alone, no later call would mark the pool.
 */
export async function markInitialized(
  catalogue: AsyncCatalogue,
  backend: Backend,
  { volumeId, pristine }: VolumeRecord,
): Promise<void> {
  if (!pristine) return;
  await backend.marks.set([volumeId]);
  await catalogue.markVolumeInitialized(volumeId);
}
