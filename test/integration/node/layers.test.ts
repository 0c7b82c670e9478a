/** Single mounts: a bind, a change of flags or an unmount affects the mount that was checked, or nothing. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { closeSync, mkdirSync, openSync } from 'node:fs';
import { after } from 'node:test';
import type { MountEntry } from '../../../src/base/system/mountinfo.js';
import { bindLayer, setLayerFlags, unmountLayers } from '../../../src/driver/host/layers.js';
import { topMount } from '../../../src/driver/host/mounter.js';
import { NativePool } from '../../../src/driver/native/pool.js';
import { refused } from '../../support/refusal.js';
import { test } from '../../support/running-plugin.js';
import { mountsBelow, Workspace } from '../../support/workspace.js';

const workspace = new Workspace('layers');
const native = new NativePool(2);
after(async () => {
  await native.close();
  workspace.dispose();
});

function directory(name: string): string {
  const path = workspace.path(name);
  mkdirSync(path, { recursive: true });
  return path;
}

async function tmpfs(path: string): Promise<MountEntry> {
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'nosuid', 'tmpfs', path]);
  return topOf(path);
}

async function topOf(path: string): Promise<MountEntry> {
  const top = await topMount(path);
  assert.ok(top !== null, `${path} is no mount point`);
  return top;
}

const bindOf = (source: string, { mountId }: MountEntry, target: string) => ({
  source,
  sourceMountId: mountId,
  sourceDevice: null,
  target,
  readOnly: false,
  options: [] as string[],
});

test('a source that was replaced meanwhile is not bound, and its flags stay', async () => {
  const [source, target] = [directory('stale-source'), directory('stale-target')];
  const below = await tmpfs(source);
  await tmpfs(source);
  const bind = bindOf(source, below, target);
  await refused(bindLayer(native, bind), 'FAILED_PRECONDITION', /another mount is there/);
  const device = { ...bind, sourceMountId: null, sourceDevice: 1 };
  await refused(bindLayer(native, device), 'FAILED_PRECONDITION', /another device is there/);
  const flags = { target: source, readOnly: true, options: [] };
  await refused(setLayerFlags(native, below, flags), 'FAILED_PRECONDITION', /another mount/);
  const onto = bindOf(source, await topOf(source), source);
  await refused(bindLayer(native, onto), 'FAILED_PRECONDITION', /something is mounted on it/);
  assert.deepEqual(mountsBelow(target), []);
});

test('only the layer that was checked is unmounted, no busy one, and nothing below a foreign one', async () => {
  const path = directory('layered');
  const own = await tmpfs(path);
  const foreign = await tmpfs(path);
  const isOwn = ({ mountId }: MountEntry): boolean => mountId === own.mountId;
  assert.equal((await unmountLayers(native, path, isOwn)).found, false);
  const run = native.run('unmountLayer', { path, mountId: own.mountId });
  await assert.rejects(run, { code: 'ESTALE' });
  assert.equal((await topOf(path)).mountId, foreign.mountId);
  assert.equal(mountsBelow(path).length, 2);
  const held = openSync(path, 'r');
  const busy = unmountLayers(native, path, () => true);
  await refused(busy, 'FAILED_PRECONDITION', /\/layered cannot be unmounted/);
  closeSync(held);
  assert.equal((await unmountLayers(native, path, () => true)).found, true);
  assert.equal((await unmountLayers(native, path, () => true)).found, false);
});
