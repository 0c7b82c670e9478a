/** Files of thin metadata for tests, and the tools of Debian's thin-provisioning-tools to judge by. */
import { execFile, spawnSync } from 'node:child_process';
import { promisify } from 'node:util';
import { packagePath } from '../../src/base/package-root.js';

const run = promisify(execFile);
/** What a tool may print. */
const MAX_OUTPUT_BYTES = 2 ** 30;

/** Why tests against the tools cannot run here; false if they can. For node:test's `skip`. */
export const skipWithoutThinTools: string | false =
  spawnSync('thin_delta', ['--version']).error === undefined
    ? false
    : 'needs thin_delta: install thin-provisioning-tools';

/** Writes a file; the options are those of scripts/make-thin-metadata. */
export async function makeThinMetadata(path: string, options: readonly string[]): Promise<void> {
  await run(packagePath('scripts/make-thin-metadata'), ['-o', path, ...options]);
}

/** Writes what a kernel once wrote. */
export async function kernelMetadata(path: string): Promise<string> {
  const packed = packagePath('test/fixtures/thin-metadata-kernel-6.1.bin.zst');
  await run('zstd', ['-q', '-d', '--sparse', packed, '-o', path]);
  return path;
}

/** What a tool prints. Rejects if it fails. */
export async function thinTool(name: string, args: readonly string[]): Promise<string> {
  return (await run(name, args, { maxBuffer: MAX_OUTPUT_BYTES })).stdout;
}
