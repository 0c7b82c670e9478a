/** Mounts and unmounts of a test, through the plugin's own code and one worker thread of the test's process. */
import { after } from 'node:test';
import type { MountEntry } from '../../src/base/system/mountinfo.js';
import { unmountLayers } from '../../src/driver/host/layers.js';
import { type MountRequest, mount as mountWith } from '../../src/driver/host/mounter.js';
import { kernelPath } from '../../src/driver/host/target.js';
import { NativePool } from '../../src/driver/native/pool.js';

let native: NativePool | null = null;
after(() => native?.close());

function thread(): NativePool {
  native ??= new NativePool(1);
  return native;
}

export function mount(request: MountRequest): Promise<readonly MountEntry[]> {
  return mountWith(thread(), request);
}

/** All layers on the path. */
export async function unmount(path: string): Promise<void> {
  const target = await kernelPath(path);
  if (target !== null) await unmountLayers(thread(), target, () => true);
}
