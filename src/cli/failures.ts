/** Which exit code and which message each failure of a command has that calls drivers or reads their data. */
import { CsiError, messageOf } from '../base/errors.js';
import { isServiceError } from '../tools/client/connection.js';
import { InterruptedError } from '../tools/client/resumable-stream.js';
import { ExitCode, exitCodeOfStatus } from './exit-codes.js';
import { type CommandFailure, runToExitCode } from './output.js';

/** As runToExitCode, with the codes of gRPC's statuses. */
export function runToStatus(work: (signal: AbortSignal) => Promise<void>): Promise<ExitCode> {
  return runToExitCode(work, failureOf);
}

/** Of anything that is thrown. What has no gRPC status is a failure without a code of its own. */
function failureOf(error: unknown): CommandFailure {
  if (error instanceof InterruptedError) {
    const message = `${error.message}; the last failure: ${messageOf(error.cause)}`;
    return { code: ExitCode.UNREACHABLE, message };
  }
  const hasStatus = error instanceof CsiError || isServiceError(error);
  const code = hasStatus ? exitCodeOfStatus(error.code) : ExitCode.FAILURE;
  return { code, message: messageOf(error) };
}
