/** The exit codes of all commands: scripts rely on them, so a number never changes its meaning. */
export const ExitCode = {
  OK: 0,
  FAILURE: 1,
  USAGE: 2,
  INVALID_ARGUMENT: 3,
  NOT_FOUND: 4,
  FAILED_PRECONDITION: 5,
  UNREACHABLE: 6,
  /** EX_CONFIG of sysexits.h. */
  CONFIG: 78,
  /** 128 and the number of SIGINT. */
  INTERRUPTED: 130,
} as const;
export type ExitCode = (typeof ExitCode)[keyof typeof ExitCode];
