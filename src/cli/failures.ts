/** The exit code and the message of each failure, for commands that call drivers or read their data. */
import { CsiError, messageOf } from '../base/errors.js';
import { StoreError } from '../tools/backup/object-store.js';
import { isServiceError } from '../tools/client/connection.js';
import { InterruptedError } from '../tools/client/resumable-stream.js';
import { ExitCode, exitCodeOfStatus } from './exit-codes.js';
import { type CommandFailure, runToExitCode } from './output.js';

/** Like runToExitCode, but takes the exit code from the gRPC status of the failure. */
export function runToStatus(work: (signal: AbortSignal) => Promise<void>): Promise<ExitCode> {
  return runToExitCode(work, failureOf);
}

/** Accepts any thrown value: UNREACHABLE for an InterruptedError, FAILURE for every other value without a gRPC status. */
export function failureOf(error: unknown): CommandFailure {
  if (error instanceof InterruptedError) {
    const message = `${error.message}; the last failure: ${messageOf(error.cause)}`;
    return { code: ExitCode.UNREACHABLE, message };
  }
  if (error instanceof StoreError) return { code: ExitCode.REMOTE, message: error.message };
  const hasStatus = error instanceof CsiError || isServiceError(error);
  const code = hasStatus ? exitCodeOfStatus(error.code) : ExitCode.FAILURE;
  return { code, message: messageOf(error) };
}
