/** What to do when the guardian that snapshots need does not run. For all backends. */
import { CsiError, type SystemError } from '../../base/errors.js';

/** The error if `thrown` says that nobody listens at the configured socket; null otherwise. */
export function missingGuardian(
  thrown: SystemError,
  guardianSocket: string | null,
): CsiError | null {
  if (thrown.path !== guardianSocket) return null;
  return CsiError.unavailable(
    `no guardian answers at ${thrown.path}, BLOCKDELTA_GUARDIAN_SOCKET (${thrown.code}), so no volume in use can be ` +
      'frozen or suspended; start blockdelta-guardian --listen there and try again',
    { cause: thrown },
  );
}
