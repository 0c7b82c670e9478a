/** Freezes as other programs make them, by fsfreeze(8) as in the hooks of backup programs. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, rmdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export function freeze(mountPoint: string): void {
  execFileSync('fsfreeze', ['--freeze', mountPoint]);
}

/** Fails if it is not frozen. */
export function thaw(mountPoint: string): void {
  execFileSync('fsfreeze', ['--unfreeze', mountPoint]);
}

/** Freezing what is frozen already fails. */
export function isFrozen(mountPoint: string): boolean {
  const isDone = (option: string): boolean =>
    spawnSync('fsfreeze', [option, mountPoint], { stdio: 'ignore' }).status === 0;
  if (!isDone('--freeze')) return true;
  assert.ok(isDone('--unfreeze'));
  return false;
}

/** Whether the file system that holds a device is frozen, though it is mounted nowhere. */
export function isFrozenUnmounted(device: string): boolean {
  return mountedAside(device, isFrozen);
}

/** Releases a device that a frozen file system holds, which is mounted nowhere: what a failed test leaves. */
export function thawUnmounted(device: string): void {
  mountedAside(device, (place) => spawnSync('fsfreeze', ['--unfreeze', place], { stdio: 'ignore' }));
}

function mountedAside<T>(device: string, look: (place: string) => T): T {
  const place = mkdtempSync(join(tmpdir(), 'frozen-'));
  execFileSync('mount', [device, place]);
  try {
    return look(place);
  } finally {
    execFileSync('umount', [place]);
    rmdirSync(place);
  }
}
