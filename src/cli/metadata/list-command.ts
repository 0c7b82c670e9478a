/** What the commands that read a list of SnapshotMetadata share: the check of the socket, its errors, and progress. */
import { InterruptedError } from '../../tools/client/resumable-stream.js';
import { ExitCode } from '../exit-codes.js';
import { runToStatus } from '../failures.js';
import { complain } from '../output.js';
import { socketProblem } from '../socket.js';

export async function runListCommand(
  socketPath: string,
  work: (signal: AbortSignal) => Promise<void>,
): Promise<ExitCode> {
  // A client that has read a part of a list waits for a plugin that restarts; one that has never reached it does not.
  const problem = await socketProblem(socketPath);
  if (problem !== null) {
    complain(problem.message);
    return ExitCode.UNREACHABLE;
  }
  return runToStatus(work);
}

/** Adds to an InterruptedError why the client cannot connect now, if it cannot; returns other errors unchanged. */
export async function withSocketProblem(thrown: unknown, socketPath: string): Promise<unknown> {
  if (!(thrown instanceof InterruptedError)) return thrown;
  const problem = await socketProblem(socketPath);
  if (problem === null) return thrown;
  return new InterruptedError(`${thrown.message}: ${problem.message}`, { cause: thrown.cause });
}

/** The share of the volume that the list has passed, from 0 to 1; null if the capacity is not known yet or is 0. */
export function shareOf(position: bigint, capacityBytes: bigint | null): number | null {
  if (capacityBytes === null || capacityBytes === 0n) return null;
  return Number((position * 1000n) / capacityBytes) / 1000;
}
