/** The volume that has a name, whatever its state: for a caller that asks before it decides where to create one. */
import type { AsyncCatalogue } from '../catalogue/catalogue-client.js';
import { type OperationLocks, volumeNameKey } from './operation-locks.js';

/** Null: there is none. ABORTED while a call with the name is in progress, which may be creating it. */
export function volumeNamed(
  { catalogue, locks }: { catalogue: Pick<AsyncCatalogue, 'volumeByName'>; locks: OperationLocks },
  name: string,
  signal: AbortSignal,
): Promise<string | null> {
  const find = async (): Promise<string | null> => (await catalogue.volumeByName(name))?.volumeId ?? null;
  return locks.run([volumeNameKey(name)], find, signal);
}
