/** How commands that print a list write it, and how they end: by themselves, by SIGINT, by their reader. */
import { errorCode } from '../base/errors.js';
import { ExitCode } from './exit-codes.js';

/** SIGINT: whoever sent it needs no message. */
class Interrupt extends Error {}

/** What a failure means, and the words for it on stderr. */
export interface Verdict {
  code: ExitCode;
  message: string;
}

/** Runs the work of a command to its exit code. The signal is aborted by SIGINT. */
export async function runToExitCode(
  work: (signal: AbortSignal) => Promise<void>,
  judge: (error: unknown) => Verdict,
): Promise<ExitCode> {
  const interrupt = new AbortController();
  const onSigint = (): void => interrupt.abort(new Interrupt());
  process.once('SIGINT', onSigint);
  // A write that fails is told by its callback; unheard, the event would end the process.
  process.stdout.on('error', () => undefined);
  // Nobody reads the words: the list and the exit code stay what they are.
  process.stderr.on('error', () => undefined);
  try {
    await work(interrupt.signal);
    return ExitCode.OK;
  } catch (error) {
    if (interrupt.signal.aborted) return ExitCode.INTERRUPTED;
    // The reader of the pipe has seen enough.
    if (errorCode(error) === 'EPIPE') return ExitCode.OK;
    const { code, message } = judge(error);
    complain(message);
    return code;
  } finally {
    process.off('SIGINT', onSigint);
  }
}

/** Resolves when the text is written, so that a slow reader makes the command wait. */
export async function print(text: string): Promise<void> {
  if (text === '') return;
  await new Promise<void>((resolve, reject) => {
    process.stdout.write(text, (error) => (error ? reject(error) : resolve()));
  });
}

export function complain(message: string): void {
  process.stderr.write(`blockdelta: ${message}\n`);
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
