/**
 * Runs a program for as long as it takes, such as a server or the copy of a volume, and tells how it ended. A command of run()
 * in exec.ts ends soon, or is killed. An AbortSignal kills a program here. Knows no program's arguments.
 */
import type { ChildProcess } from 'node:child_process';
import type { Readable } from 'node:stream';
import { CsiError, errorCode } from '../errors.js';
import { ExecError, start } from './exec.js';
import type { Argument } from './program-arguments.js';
import { NOT_CONFINED_EXIT_CODE, type Rights } from './sandbox.js';

const STDERR_TAIL_BYTES = 4096;

export interface ProgramExit {
  /** Null if a signal ended the program, or if it could not be started. */
  readonly exitCode: number | null;
  readonly signal: string | null;
}

export interface StartOptions {
  rights: Rights;
  /** Variables beside the fixed ones. */
  env?: Readonly<Record<string, string>>;
  /** Kills the program. */
  signal?: AbortSignal | undefined;
}

/** A program that was started. The caller must read its stdout, which is a pipe. */
export class Program {
  readonly exited: Promise<ProgramExit>;
  #exit: ProgramExit | null = null;
  #stderr = Buffer.alloc(0);

  private constructor(
    readonly name: string,
    private readonly child: ChildProcess,
    private readonly withPaths: (text: string) => string,
    signal: AbortSignal | undefined,
  ) {
    const kill = (): void => this.kill('SIGKILL');
    this.exited = new Promise((resolve) => {
      const end = (exit: ProgramExit): void => {
        signal?.removeEventListener('abort', kill);
        this.#exit ??= exit;
        resolve(this.#exit);
      };
      child.on('close', (exitCode, ending) => end({ exitCode, signal: ending }));
      child.on('error', (thrown) => {
        this.#keepStderr(Buffer.from(`it could not be started: ${errorCode(thrown)}`));
        end({ exitCode: null, signal: null });
      });
    });
    child.stderr?.on('data', (chunk: Buffer) => this.#keepStderr(chunk));
    signal?.addEventListener('abort', kill);
    if (signal?.aborted === true) kill();
  }

  /** Throws FAILED_PRECONDITION if the program is not installed, INTERNAL if a path is relative. */
  static async start(
    name: string,
    args: readonly Argument[],
    { rights, env = {}, signal }: StartOptions,
  ): Promise<Program> {
    signal?.throwIfAborted();
    const { child, withPaths } = await start(name, args, { ...rights, env });
    return new Program(name, child, withPaths, signal);
  }

  get stdout(): Readable {
    return this.child.stdout as Readable;
  }

  /** Null while the program runs. */
  get exit(): ProgramExit | null {
    return this.#exit;
  }

  /** The last 4 KiB that the program wrote to stderr. */
  get stderr(): string {
    return this.withPaths(this.#stderr.toString('utf8')).trim();
  }

  kill(signal: 'SIGTERM' | 'SIGKILL'): void {
    if (this.#exit === null) this.child.kill(signal);
  }

  /** Describes the failure of a program for people: its purpose, how it ended, and the end of its stderr. */
  failure(purpose: string, { exitCode, signal }: ProgramExit): Error {
    if (exitCode === NOT_CONFINED_EXIT_CODE) {
      return CsiError.failedPrecondition(
        `${this.name} was not started to ${purpose}, because the rights it does not need could not be taken ` +
          `from it (${this.stderr})`,
      );
    }
    const how = exitCode === null ? `was ended by ${signal ?? 'nobody'}` : `failed with exit code ${exitCode}`;
    const said = this.stderr === '' ? '' : `: ${this.stderr}`;
    const message = `${this.name}, started to ${purpose}, ${how}${said}`;
    const code = exitCode === null ? 'SIGNAL' : 'EXIT';
    return new ExecError(code, this.name, exitCode, signal, this.stderr, message);
  }

  #keepStderr(chunk: Buffer): void {
    this.#stderr = Buffer.concat([this.#stderr, chunk]).subarray(-STDERR_TAIL_BYTES);
  }
}

const STDOUT_MAX_BYTES = 1 << 20;

export interface ProgramResult {
  readonly exitCode: number;
  readonly stdout: string;
}

export interface RunOptions extends StartOptions {
  /** The program's purpose, for the message of a failure: "check the image PATH". */
  purpose: string;
  /** Exit codes that are not failures. */
  accept?: readonly number[];
  /** Called with the program's stdout as the program writes it. `stdout` of the result is then empty. */
  onOutput?(text: string): void;
}

/** Runs a program to its end. Rejects with the signal's reason, FAILED_PRECONDITION or ExecError. */
export async function runProgram(
  name: string,
  args: readonly Argument[],
  { rights, signal, purpose, accept = [0], onOutput }: RunOptions,
): Promise<ProgramResult> {
  const program = await Program.start(name, args, { rights, signal });
  let stdout = '';
  program.stdout.setEncoding('utf8').on('data', (text: string) => {
    if (onOutput !== undefined) onOutput(text);
    else if (stdout.length < STDOUT_MAX_BYTES) stdout += text;
  });
  const exit = await program.exited;
  signal?.throwIfAborted();
  const { exitCode } = exit;
  if (exitCode === null || !accept.includes(exitCode)) throw program.failure(purpose, exit);
  return { exitCode, stdout };
}
