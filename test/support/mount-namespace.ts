/** A process in a copy of this mount namespace, as every container starts with. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';

/**
 * Resolves when the copy exists; it goes with the process. What is mounted now stays mounted in it; as a slave it loses
 * what is unmounted here, as far as that is shared.
 */
export async function copyMountNamespace(propagation: 'private' | 'slave' = 'private'): Promise<ChildProcess> {
  const child = spawn(
    'unshare',
    ['--mount', '--propagation', propagation, '--', 'sh', '-c', 'echo copied; exec sleep 600'],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  );
  await once(child.stdout, 'data');
  return child;
}
