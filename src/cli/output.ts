/** The output of commands, and how a command ends: normally, by a signal, or by a closed pipe. */
import { errorCode, messageOf } from '../base/errors.js';
import { harmless } from '../base/plain-text.js';
import { ExitCode } from './exit-codes.js';

export { harmless };

/** The reason of an abort by a signal, which prints no message. */
class Interrupt extends Error {}

export const SIGNALS = ['SIGINT', 'SIGTERM'] as const;

/** The exit code of a failure, and its message on stderr. */
export interface CommandFailure {
  code: ExitCode;
  message: string;
}

/** Runs a command and resolves to its exit code. SIGINT and SIGTERM abort the signal. */
export async function runToExitCode(
  work: (signal: AbortSignal) => Promise<void>,
  describe: (error: unknown) => CommandFailure = plainFailure,
): Promise<ExitCode> {
  const interrupt = new AbortController();
  const onSignal = (): void => interrupt.abort(new Interrupt());
  for (const signal of SIGNALS) process.once(signal, onSignal);
  try {
    await work(interrupt.signal);
    return ExitCode.OK;
  } catch (error) {
    if (interrupt.signal.aborted) return ExitCode.INTERRUPTED;
    // The reader has closed the pipe.
    if (errorCode(error) === 'EPIPE') return ExitCode.OK;
    const { code, message } = describe(error);
    complain(message);
    return code;
  } finally {
    for (const signal of SIGNALS) process.off(signal, onSignal);
  }
}

const plainFailure = (error: unknown): CommandFailure => ({
  code: ExitCode.FAILURE,
  message: messageOf(error),
});

/** Resolves when the text is written, so that the command waits for a slow reader. */
export async function print(text: string): Promise<void> {
  if (text === '') return;
  await new Promise<void>((resolve, reject) => {
    process.stdout.write(text, (error) => (error ? reject(error) : resolve()));
  });
}

export function complain(message: string): void {
  process.stderr.write(`blockdelta: ${harmless(message)}\n`);
}
