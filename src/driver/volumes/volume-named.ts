/** Finds a volume by its name, in any state, for a caller that asks before it decides where to create the volume. */
import type { AsyncCatalogue } from '../catalogue/catalogue-client.js';
import { type OperationLocks, volumeNameKey } from './operation-locks.js';

/** The volume's id; null if there is none. ABORTED while a call with the name, which may be creating the volume, is pending. */
export function volumeNamed(
  { catalogue, locks }: { catalogue: Pick<AsyncCatalogue, 'volumeByName'>; locks: OperationLocks },
  name: string,
  signal: AbortSignal,
): Promise<string | null> {
  const find = async (): Promise<string | null> => (await catalogue.volumeByName(name))?.volumeId ?? null;
  return locks.run([volumeNameKey(name)], find, signal);
}
