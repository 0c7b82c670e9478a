/** The command line as a process, with what it prints. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { TestContext } from 'node:test';
import { packagePath } from '../../src/base/package-root.js';

const MAIN = packagePath('.test-build/src/main.js');

export interface Ended {
  code: number | null;
  signal: string | null;
  stdout: string;
  stderr: string;
}

/**
 * A command that runs; its stderr is gathered, its stdout is the caller's to read. `by` is a program with its
 * arguments that runs it, such as unshare(1).
 */
export function startCommand(
  t: Pick<TestContext, 'after'>,
  args: readonly string[],
  env: Record<string, string> = {},
  by: readonly string[] = [],
) {
  const [program = '', ...rest] = [...by, process.execPath, MAIN, ...args];
  const child = spawn(program, rest, {
    env: { PATH: process.env['PATH'] ?? '', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  t.after(() => child.kill('SIGKILL'));
  const output = { stdout: '', stderr: '' };
  child.stderr.on('data', (data: Buffer) => {
    output.stderr += data.toString();
  });
  return { child, output };
}

export async function endOf(
  child: ChildProcess,
  output: { stdout: string; stderr: string },
): Promise<Ended> {
  const [code, signal] = (await once(child, 'close')) as [number | null, string | null];
  return { code, signal, ...output };
}

/** Runs a command to its end. */
export async function runCommand(
  t: Pick<TestContext, 'after'>,
  args: readonly string[],
  env: Record<string, string> = {},
  by: readonly string[] = [],
): Promise<Ended> {
  const { child, output } = startCommand(t, args, env, by);
  child.stdout.on('data', (data: Buffer) => {
    output.stdout += data.toString();
  });
  return endOf(child, output);
}
