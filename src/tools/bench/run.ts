/** Runs a program to its end and collects its output. */
import { execFile } from 'node:child_process';

export interface Finished {
  code: number;
  stdout: string;
  stderr: string;
  /** From the start of the process to its end. */
  seconds: number;
}

const MAX_OUTPUT_BYTES = 256 << 20;

/** @param options.check rejects, with the end of stderr, if the program fails */
export async function run(
  program: string,
  args: readonly string[],
  options: {
    check?: boolean;
    env?: Record<string, string>;
    directory?: string;
    input?: string;
  } = {},
): Promise<Finished> {
  const started = performance.now();
  const path = `${process.env['PATH'] ?? ''}:/usr/sbin:/sbin`;
  const finished = await new Promise<Finished>((resolve, reject) => {
    const child = execFile(
      program,
      args,
      {
        maxBuffer: MAX_OUTPUT_BYTES,
        env: { ...process.env, PATH: path, LC_ALL: 'C', ...options.env },
        ...(options.directory === undefined ? {} : { cwd: options.directory }),
      },
      (error, stdout, stderr) => {
        // Without an exit code, either the program could not be started or a signal ended it.
        const code = error === null ? 0 : error.code;
        const seconds = (performance.now() - started) / 1000;
        if (typeof code === 'number') resolve({ code, stdout, stderr, seconds });
        else reject(error);
      },
    );
    // A program that ends early reads no more; its exit code says why.
    child.stdin?.on('error', () => undefined);
    child.stdin?.end(options.input);
  });
  if (options.check === true && finished.code !== 0) {
    const last = finished.stderr.trim().split('\n').slice(-3).join('; ');
    throw new Error(`${program} ${args.join(' ')} failed with ${finished.code}: ${last}`);
  }
  return finished;
}
