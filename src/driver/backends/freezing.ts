/**
 * How volumes are frozen or suspended while they are copied, and what to do when that fails. For all backends.
 */
import { CsiError, type SystemError } from '../../base/errors.js';

export interface Freezing {
  /** Socket of a guardian that survives this process's container; null if each call starts its own guardian. */
  guardianSocket: string | null;
  /** How long a file system may stay frozen, or a device suspended. */
  limitMs: number;
}

export const DEFAULT_FREEZING: Freezing = { guardianSocket: null, limitMs: 60_000 };

/** What had not happened when the limit passed, by the system call that the plugin was waiting for. */
const UNDONE: Readonly<Record<string, string>> = {
  FICLONE: 'its clone was not complete',
  FITHAW: 'it was not thawed',
  fsync: 'its device was not flushed',
};

/** Whether the copy failed because it did not end within the freeze. */
export const outlastedFreeze = ({ code, syscall }: SystemError): boolean =>
  code === 'ETIMEDOUT' && syscall === 'FICLONE';

/** The limits of one freeze, in the form that the addon takes. */
export interface FreezeRequest {
  guardianSocket: string | null;
  freezeLimitMs: bigint;
  deadlineMs: bigint | null;
}

/** The request of a call that begins now. A freeze also ends at the caller's deadline. */
export function freezeRequest({ guardianSocket, limitMs }: Freezing, deadline: number): FreezeRequest {
  const allowedMs = Math.min(limitMs, Math.max(deadline - Date.now(), 0));
  const deadlineMs = Number.isFinite(deadline) ? BigInt(Math.floor(deadline)) : null;
  return { guardianSocket, freezeLimitMs: BigInt(Math.floor(allowedMs)), deadlineMs };
}

/** The error if `thrown` says that nobody listens at the configured socket; null otherwise. */
export function missingGuardian(thrown: SystemError, guardianSocket: string | null): CsiError | null {
  if (thrown.path !== guardianSocket) return null;
  return CsiError.unavailable(
    `no guardian answers at ${thrown.path}, BLOCKDELTA_GUARDIAN_SOCKET (${thrown.code}), so no volume in use can be ` +
      'frozen or suspended; start blockdelta-guardian --listen there and try again',
    { cause: thrown },
  );
}

/**
 * The error if `thrown` says that a volume could not be copied while it stood still: a freeze or clone took too long, or
 * another program lifted a freeze. Null if the failure has another cause.
 */
export function brokenFreeze(thrown: SystemError, volumeId: string, { freezeLimitMs }: FreezeRequest): CsiError | null {
  const cause = { cause: thrown };
  if (thrown.code === 'SNAPSHOT_THAWED') {
    return CsiError.aborted(
      `another program thawed or froze the file system of volume ${volumeId} (${thrown.path}) while it was copied; ` +
        'keep it frozen, or thawed, for the time of the call, and try again',
      cause,
    );
  }
  if (thrown.code === 'SNAPSHOT_UNCOUNTED') {
    return CsiError.failedPrecondition(
      `another program has frozen the file system of volume ${volumeId} (${thrown.path}), and its device does not ` +
        'count writes, so nothing proves that it stands still while the others are copied; write 1 to queue/iostats ' +
        'of the device in /sys/block, thaw it, or take single snapshots',
      cause,
    );
  }
  if (thrown.code !== 'ETIMEDOUT') return null;
  if (thrown.syscall === 'syncfs') {
    return CsiError.aborted(
      `the file system of volume ${volumeId} had not written back what it holds in memory when the caller's deadline ` +
        'passed, and nothing was frozen; raise the deadline, or the I/O limits of the pod that writes, and try again',
      cause,
    );
  }
  const what = UNDONE[thrown.syscall] ?? 'it was not frozen';
  return CsiError.aborted(
    `volume ${volumeId} was given up because ${what} (${thrown.syscall}) within ${Number(freezeLimitMs) / 1000} s ` +
      "(BLOCKDELTA_FREEZE_LIMIT_SECONDS, or what was left until the caller's deadline), the longest that a file system stays frozen; see what " +
      'its disk or another program is doing, and try again',
    cause,
  );
}
