/** The capacity that a reflink pool offers to new volumes, and how it reports removed storage. */

import assert from 'node:assert/strict';
import { linkSync, rmSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { before } from 'node:test';
import { releaseLoop } from '../../src/driver/backends/loop-release.js';
import type { ReflinkBackend } from '../../src/driver/backends/reflink/reflink-backend.js';
import { test } from '../support/running-plugin.js';
import { newVolume } from './harness.js';
import { ReflinkFixture } from './reflink-fixture.js';

const MIB = 1n << 20n;

const fixture = new ReflinkFixture('space', 'xfs', 2048, before);

const pool = (overcommitPercent: bigint, reservePercent: bigint): Promise<ReflinkBackend> =>
  fixture.open({ overcommitPercent, reservePercent });

async function freeBytes(): Promise<bigint> {
  const { bavail, bsize } = await statfs(fixture.directory, { bigint: true });
  return bavail * bsize;
}

/** XFS gives and takes a few blocks of its own in the background. */
function assertNear(found: bigint, wanted: bigint): void {
  assert.ok(found - wanted < MIB && wanted - found < MIB, `${found} is far from ${wanted}`);
}

const aligned = (bytes: bigint): bigint => (bytes / 4096n) * 4096n;

test('a pool does not offer its reserve to new volumes', async () => {
  const { totalBytes, freeBytes: free, reserveBytes, availableBytes } = await (await pool(100n, 10n)).capacity();
  assertNear(free, await freeBytes());
  assert.equal(reserveBytes, totalBytes / 10n);
  assert.equal(availableBytes, aligned(free - reserveBytes));
});

test('an overcommitted pool offers a multiple of its free space, less what existing volumes may claim', async () => {
  const backend = await pool(250n, 0n);
  const before = await backend.capacity();
  assert.equal(before.availableBytes, aligned((before.freeBytes * 250n) / 100n));
  const volumeId = newVolume();
  await backend.volumes.create(volumeId, 64n * MIB);
  const after = await backend.capacity();
  const promised = before.availableBytes - after.availableBytes;
  const used = ((before.freeBytes - after.freeBytes) * 250n) / 100n;
  assert.ok(promised - used >= 63n * MIB && promised - used <= 65n * MIB, `${promised} ${used}`);
  await backend.volumes.delete(volumeId);
});

test('a pool whose reserve uses up the free space offers zero, and never less', async () => {
  const backend = await pool(100n, 50n);
  const volumeId = newVolume();
  const { totalBytes } = await backend.capacity();
  await backend.volumes.create(volumeId, aligned(totalBytes));
  assert.equal((await backend.capacity()).availableBytes, 0n);
  await backend.volumes.delete(volumeId);
});

test('a device whose backing file was removed from the pool is reported', async () => {
  const backend = await pool(100n, 0n);
  const volumeId = newVolume();
  await backend.volumes.create(volumeId, MIB);
  await backend.attachments.attach(volumeId, { readOnly: false });
  const file = join(fixture.directory, 'volumes', volumeId);
  const kept = join(fixture.directory, 'kept');
  linkSync(file, kept);
  assert.deepEqual(await backend.volumes.condition(volumeId), { storedBytes: MIB, runsOnRemoved: false });
  rmSync(file);
  assert.deepEqual(await backend.volumes.condition(volumeId), { storedBytes: null, runsOnRemoved: true });
  await releaseLoop(fixture.native, kept);
  assert.equal((await backend.volumes.condition(volumeId)).runsOnRemoved, false);
  rmSync(kept);
});

test('a recent capacity counts volumes that were created meanwhile, and never offers more than a new one', async () => {
  const backend = await pool(100n, 5n);
  const before = await backend.capacity('recent');
  const volumes = [newVolume(), newVolume(), newVolume()];
  for (const volumeId of volumes) await backend.volumes.create(volumeId, 64n * MIB);
  const created = await backend.capacity('recent');
  assertNear(before.availableBytes - created.availableBytes, 192n * MIB);
  for (const volumeId of volumes) await backend.volumes.delete(volumeId);
  const deleted = await backend.capacity('recent');
  const now = await backend.capacity();
  assert.ok(deleted.availableBytes <= now.availableBytes + MIB);
  assertNear(now.availableBytes, before.availableBytes);
});
