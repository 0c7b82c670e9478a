/** The command line as a process, with what it prints. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { TestContext } from 'node:test';
import { PROGRAM } from './program.js';

export interface Ended {
  code: number | null;
  signal: string | null;
  stdout: string;
  stderr: string;
}

/** A command that runs. `by` is a program with its arguments that runs it, such as unshare(1); `main` another script. */
export function startCommand(
  t: Pick<TestContext, 'after'>,
  args: readonly string[],
  env: Record<string, string> = {},
  by: readonly string[] = [],
  main = PROGRAM,
) {
  const [program = '', ...rest] = [...by, process.execPath, main, ...args];
  const child = spawn(program, rest, {
    env: { PATH: process.env['PATH'] ?? '', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  t.after(() => child.kill('SIGKILL'));
  const output = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].on('data', (data: Buffer) => {
      output[name] += data.toString();
    });
  }
  const ended = once(child, 'close').then(([code, signal]): Ended => ({ code, signal, ...output }));
  return { child, output, ended };
}

/** Runs a command to its end. */
export const runCommand = (...command: Parameters<typeof startCommand>): Promise<Ended> =>
  startCommand(...command).ended;
