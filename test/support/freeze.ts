/** Freezes as other programs make them, by fsfreeze(8) as in the hooks of backup programs. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';

export function freeze(mountPoint: string): void {
  execFileSync('fsfreeze', ['--freeze', mountPoint]);
}

/** Freezing what is frozen already fails. */
export function isFrozen(mountPoint: string): boolean {
  const isDone = (option: string): boolean =>
    spawnSync('fsfreeze', [option, mountPoint], { stdio: 'ignore' }).status === 0;
  if (!isDone('--freeze')) return true;
  assert.ok(isDone('--unfreeze'));
  return false;
}
