/** Freezes as other programs make them, by fsfreeze(8) as in the hooks of backup programs. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, rmdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

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

/** Releases a device that a frozen file system holds, which is mounted nowhere: what a failed test leaves. */
export function thawUnmounted(device: string): void {
  const place = mkdtempSync(join(tmpdir(), 'thaw-'));
  const mounted = spawnSync('mount', [device, place], { stdio: 'ignore' }).status === 0;
  spawnSync('fsfreeze', ['--unfreeze', place], { stdio: 'ignore' });
  if (mounted) execFileSync('umount', [place]);
  rmdirSync(place);
}
