/** The exit codes of all commands. Scripts rely on them: a number never changes its meaning. */
import { StatusCode } from '../base/errors.js';

export const ExitCode = {
  OK: 0,
  FAILURE: 1,
  USAGE: 2,
  INVALID_ARGUMENT: 3,
  NOT_FOUND: 4,
  FAILED_PRECONDITION: 5,
  UNREACHABLE: 6,
  /** Nothing was found to be wrong, and something was not examined. */
  NOT_EXAMINED: 7,
  /** A remote with backups cannot be reached, or refuses. */
  REMOTE: 8,
  /** Some of several objects failed; the others are done. */
  SOME_FAILED: 9,
  /** EX_CONFIG of sysexits.h. */
  CONFIG: 78,
  /** 128 plus the number of SIGINT. */
  INTERRUPTED: 130,
} as const;
export type ExitCode = (typeof ExitCode)[keyof typeof ExitCode];

const OF_STATUS: Readonly<Record<number, ExitCode>> = {
  [StatusCode.INVALID_ARGUMENT]: ExitCode.INVALID_ARGUMENT,
  [StatusCode.OUT_OF_RANGE]: ExitCode.INVALID_ARGUMENT,
  [StatusCode.NOT_FOUND]: ExitCode.NOT_FOUND,
  [StatusCode.FAILED_PRECONDITION]: ExitCode.FAILED_PRECONDITION,
  [StatusCode.UNAVAILABLE]: ExitCode.UNREACHABLE,
};

/** The exit code of a command that ended with this gRPC status. */
export function exitCodeOfStatus(code: number): ExitCode {
  return OF_STATUS[code] ?? ExitCode.FAILURE;
}
