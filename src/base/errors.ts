/**
 * CsiError, the error type that calls and commands fail with, and the conversion of any thrown value to a CsiError.
 *
 * The message of a CsiError is sent to the caller. It names the object, what was attempted, what was found and what to do.
 * `cause` and `details` are for engineers: they are logged, never sent. Of gRPC this file knows only the numeric status codes.
 */

/** Canonical gRPC status codes that CSI uses (csi spec, "Error Scheme"). */
export const StatusCode = {
  OK: 0,
  CANCELLED: 1,
  UNKNOWN: 2,
  INVALID_ARGUMENT: 3,
  DEADLINE_EXCEEDED: 4,
  NOT_FOUND: 5,
  ALREADY_EXISTS: 6,
  PERMISSION_DENIED: 7,
  RESOURCE_EXHAUSTED: 8,
  FAILED_PRECONDITION: 9,
  ABORTED: 10,
  OUT_OF_RANGE: 11,
  UNIMPLEMENTED: 12,
  INTERNAL: 13,
  UNAVAILABLE: 14,
  UNAUTHENTICATED: 16,
} as const;
export type StatusCode = (typeof StatusCode)[keyof typeof StatusCode];
export type StatusName = keyof typeof StatusCode;

/** Facts for the log: ids, paths, sizes. Never secrets. */
export type ErrorDetails = Readonly<Record<string, string | number | bigint | boolean>>;

interface CsiErrorOptions {
  cause?: unknown;
  details?: ErrorDetails;
}

const errorOf =
  (code: StatusCode) =>
  (message: string, options?: CsiErrorOptions): CsiError =>
    new CsiError(code, message, options);

export class CsiError extends Error {
  override readonly name = 'CsiError';
  readonly code: StatusCode;
  readonly details: ErrorDetails;

  constructor(code: StatusCode, message: string, options: CsiErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.details = options.details ?? {};
  }

  static readonly invalidArgument = errorOf(StatusCode.INVALID_ARGUMENT);
  static readonly notFound = errorOf(StatusCode.NOT_FOUND);
  static readonly alreadyExists = errorOf(StatusCode.ALREADY_EXISTS);
  static readonly resourceExhausted = errorOf(StatusCode.RESOURCE_EXHAUSTED);
  static readonly failedPrecondition = errorOf(StatusCode.FAILED_PRECONDITION);
  static readonly aborted = errorOf(StatusCode.ABORTED);
  static readonly outOfRange = errorOf(StatusCode.OUT_OF_RANGE);
  static readonly unimplemented = errorOf(StatusCode.UNIMPLEMENTED);
  static readonly internal = errorOf(StatusCode.INTERNAL);
  static readonly unavailable = errorOf(StatusCode.UNAVAILABLE);
  static readonly cancelled = errorOf(StatusCode.CANCELLED);

  /** Converts anything thrown to a CsiError. Never throws. */
  static from(thrown: unknown): CsiError {
    if (thrown instanceof CsiError) return thrown;
    const code = errorCode(thrown);
    // Only own keys count, because a code may be any string, such as 'constructor'.
    const rule = code !== undefined && Object.hasOwn(ERRNO_RULES, code) ? ERRNO_RULES[code] : undefined;
    if (rule !== undefined) {
      const found = thrown as { message?: unknown };
      return new CsiError(rule, String(found.message ?? code), { cause: thrown });
    }
    if (thrown instanceof Error && thrown.name === 'AbortError') {
      return CsiError.cancelled('the call was cancelled', { cause: thrown });
    }
    return CsiError.internal('internal error; the plugin log names the cause', { cause: thrown });
  }
}

/** A failed native call or system call: which call, on what, with which errno name. */
export class SystemError extends Error {
  override readonly name = 'SystemError';
  readonly #says: string | ((path: string) => string);

  /** @param says the message, or how the message names the path */
  constructor(
    /** Errno name such as ENOSPC, or a code of the addon such as SCAN_REPLACED (driver/native/*addon.ts). */
    readonly code: string,
    readonly syscall: string,
    /** The file, device or directory on which the call failed. */
    readonly path: string,
    says: string | ((path: string) => string),
  ) {
    super(typeof says === 'string' ? says : says(path));
    this.#says = says;
  }

  /** The same failure with another path of the object. */
  at(path: string): SystemError {
    return Object.assign(new SystemError(this.code, this.syscall, path, this.#says), { cause: this });
  }
}

/**
 * Errnos and codes that mean the same wherever they come from. All others become INTERNAL. A code whose meaning depends on the
 * object (ENOENT, EEXIST) is handled where the object is known.
 */
const ERRNO_RULES: Readonly<Record<string, StatusCode>> = {
  ENOSPC: StatusCode.RESOURCE_EXHAUSTED,
  EDQUOT: StatusCode.RESOURCE_EXHAUSTED,
  EFBIG: StatusCode.OUT_OF_RANGE,
  EBUSY: StatusCode.FAILED_PRECONDITION,
  EROFS: StatusCode.FAILED_PRECONDITION,
  // The object was replaced after it was looked up; a retry finds the new one.
  ESTALE: StatusCode.ABORTED,
  EPERM: StatusCode.FAILED_PRECONDITION,
  EACCES: StatusCode.FAILED_PRECONDITION,
  EOPNOTSUPP: StatusCode.FAILED_PRECONDITION,
  ELOOP: StatusCode.FAILED_PRECONDITION,
  SCAN_BUSY: StatusCode.ABORTED,
  SCAN_REPLACED: StatusCode.FAILED_PRECONDITION,
  SCAN_MUTABLE: StatusCode.FAILED_PRECONDITION,
  SCAN_UNSUPPORTED: StatusCode.FAILED_PRECONDITION,
  SCAN_MAP_INVALID: StatusCode.FAILED_PRECONDITION,
  LIST_INVALID: StatusCode.FAILED_PRECONDITION,
  THIN_METADATA_INVALID: StatusCode.FAILED_PRECONDITION,
  THIN_POOL_MODE: StatusCode.FAILED_PRECONDITION,
};

/** Linux errnos that libuv, and so Node.js, has no name for: their `code` is a sentence. */
const UNNAMED_ERRNOS: Readonly<Record<number, string>> = { [-116]: 'ESTALE', [-117]: 'EUCLEAN' };

export function errorCode(thrown: unknown): string | undefined {
  if (typeof thrown !== 'object' || thrown === null) return undefined;
  const { code, errno } = thrown as { code?: unknown; errno?: unknown };
  if (typeof code !== 'string') return undefined;
  return (typeof errno === 'number' ? UNNAMED_ERRNOS[errno] : undefined) ?? code;
}

/** A function for `catch`: returns `value` if a call failed with one of these codes, and throws any other failure again. */
export function insteadOf<T>(codes: readonly string[], value: T): (thrown: unknown) => T {
  return (thrown) => {
    if (codes.includes(errorCode(thrown) ?? '')) return value;
    throw thrown;
  };
}

/** The text of any thrown value, for a message. */
export function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}

/** Text from a tenant or a request, for a message: printable ASCII of bounded length. */
export function printable(text: string, maxLength = 40): string {
  return text.slice(0, maxLength).replace(/[^\x20-\x7e]/g, '?');
}
