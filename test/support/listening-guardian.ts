/** A guardian of its own, as in a container beside the plugin's, and a plugin that ends with all its processes. */
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { binaryPath } from '../../src/base/system/binaries.js';
import { end } from './child-processes.js';
import { eventually } from './eventually.js';

/** All processes in it end with its first one. */
export const IN_PID_NAMESPACE = ['unshare', '--pid', '--fork', '--kill-child=KILL'];

export async function startGuardian(socket: string): Promise<ChildProcess> {
  const guardian = spawn(binaryPath('blockdelta-guardian'), ['--listen', socket], { stdio: 'inherit' });
  await eventually('the guardian listens', () => existsSync(socket));
  return guardian;
}

export async function endGuardian(guardian: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  await end(guardian, signal);
}
