/** How a command runs that reads a list of SnapshotMetadata. */
import { InterruptedError } from '../../tools/client/resumable-stream.js';
import { ExitCode } from '../exit-codes.js';
import { runToStatus } from '../failures.js';
import { complain } from '../output.js';
import { socketProblem } from '../socket.js';

export async function runListCommand(
  socketPath: string,
  work: (signal: AbortSignal) => Promise<void>,
): Promise<ExitCode> {
  // Without this, a wrong path would be retried for seconds. One that nobody serves now may be served soon.
  const problem = await socketProblem(socketPath);
  if (problem !== null && problem.code !== 'ECONNREFUSED') {
    complain(problem.message);
    return ExitCode.UNREACHABLE;
  }
  return runToStatus(work);
}

/** Says what keeps the client from connecting now, where that is why it gave up. */
export async function withSocketProblem(thrown: unknown, socketPath: string): Promise<unknown> {
  if (!(thrown instanceof InterruptedError)) return thrown;
  const problem = await socketProblem(socketPath);
  if (problem === null) return thrown;
  return new InterruptedError(`${thrown.message}: ${problem.message}`, { cause: thrown.cause });
}

/** How far a list is; null: its volume's capacity is not known yet. */
export function shareOf(position: bigint, capacityBytes: bigint | null): number | null {
  if (capacityBytes === null || capacityBytes === 0n) return null;
  return Number((position * 1000n) / capacityBytes) / 1000;
}
