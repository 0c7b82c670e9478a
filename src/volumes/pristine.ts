/**
 * Whether anybody but us may have written to a volume, and so whether it may be formatted.
 *
 * Two witnesses have to agree, because formatting cannot be taken back: the volume's row, and its pool.
 * A catalogue that was restored from a backup calls volumes fresh that hold data by now; their pool
 * knows better.
 */
import type { Backend } from '../backends/backend.js';
import type { AsyncCatalogue } from '../catalogue/catalogue-client.js';
import type { VolumeRecord } from '../catalogue/records.js';

/** Nobody but us has ever written to the volume. The caller holds its lock. */
export async function isPristine(
  backend: Backend,
  { volumeId, pristine }: Pick<VolumeRecord, 'volumeId' | 'pristine'>,
): Promise<boolean> {
  return pristine && !(await backend.isInitialized(volumeId));
}

/**
 * Before anybody else can write to the volume. The pool first: a row that said so alone would be one
 * witness only, and would keep the other from ever being asked for.
 */
export async function markInitialized(
  catalogue: AsyncCatalogue,
  backend: Backend,
  { volumeId, pristine }: VolumeRecord,
): Promise<void> {
  if (!pristine) return;
  await backend.markInitialized(volumeId);
  await catalogue.markVolumeInitialized(volumeId);
}
