/** Publication and its end: targets, second publications by access mode (CSI's table), what a kill or reboot leaves. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { blockCapability, type Message, mountCapability } from '../../support/csi-client.js';
import { refused } from '../../support/refusal.js';
import { test } from '../../support/running-plugin.js';
import { writeAt } from '../../support/write-at.js';
import { useNode } from './node-fixture.js';

const node = useNode('node-publish');
const { workspace } = node;

const WRITER = 'SINGLE_NODE_WRITER';
const READER = 'SINGLE_NODE_READER_ONLY';
const MULTI = 'SINGLE_NODE_MULTI_WRITER';
const KINDS: readonly (readonly [string, (mode?: string) => Message])[] = [
  ['mount', (mode) => mountCapability('ext4', mode)],
  ['block', (mode) => blockCapability(mode)],
];

/** Opening a read-only device for writing succeeds; writing to it does not. */
const writeBlock = (path: string): void => writeAt(path, 0, Buffer.alloc(4096, 1));

test('NP2, NP3, NP8: a volume that is not staged there is not published', async () => {
  const volume = await node.makeVolume();
  const capability = mountCapability();
  const unknown = { volume_id: 'fake-vol-id-0123456789', target_path: 'some/path' };
  await refused(node.publish(volume, capability, unknown), 'NOT_FOUND');
  const unnamed = { staging_target_path: '' };
  await refused(node.publish(volume, capability, unnamed), 'FAILED_PRECONDITION', /staging/);
  for (const each of [capability, blockCapability()]) {
    await refused(node.publish(volume, each), 'FAILED_PRECONDITION', /not staged/);
  }
  for (const field of ['target_path', 'staging_target_path']) {
    const relative = node.publish(volume, capability, { [field]: 'some/path' });
    await refused(relative, 'INVALID_ARGUMENT', new RegExp(field));
  }
  assert.deepEqual(readdirSync(workspace.path('pods')), []);
});

test('NP5: more access than was staged is FAILED_PRECONDITION', async () => {
  const volume = await node.staged(mountCapability('ext4', READER));
  for (const capability of [mountCapability('ext4', WRITER), mountCapability('xfs', READER), blockCapability(READER)]) {
    await refused(node.publish(volume, capability), 'FAILED_PRECONDITION', /is staged at/);
  }
  await node.publish(volume, mountCapability('ext4', READER));
  const target = node.targetPath(volume.volumeId);
  assert.throws(() => writeFileSync(`${target}/x`, ''), /EROFS/);
  await node.cleared(volume, target);
});

test('NP6: the target is made, its parent is not, and what a target holds stays', async () => {
  const volume = await node.staged();
  const orphan = { target_path: workspace.path('no-pod', 'target') };
  const answer = node.publish(volume, mountCapability(), orphan);
  await refused(answer, 'FAILED_PRECONDITION', /no-pod|parent directory/);
  const target = node.targetPath(volume.volumeId);
  mkdirSync(target);
  writeFileSync(`${target}/precious`, 'data');
  await refused(node.publish(volume, mountCapability()), 'FAILED_PRECONDITION', /not empty/);
  await refused(node.unpublish(volume), 'FAILED_PRECONDITION', /left as it is/);
  assert.equal(readFileSync(`${target}/precious`, 'utf8'), 'data');
  rmSync(`${target}/precious`);
  // Empty, as some orchestrators make it; then missing.
  for (let time = 0; time < 2; time += 1) {
    await node.publish(volume, mountCapability());
    writeFileSync(`${target}/file`, 'written');
    assert.equal(readFileSync(`${node.stagingPath(volume.volumeId)}/file`, 'utf8'), 'written');
    await node.unpublish(volume);
    assert.ok(!existsSync(target));
  }
  await node.cleared(volume);
});

for (const [kind, make] of KINDS) {
  for (const mode of [WRITER, READER, 'SINGLE_NODE_SINGLE_WRITER', MULTI]) {
    test(`NP4: a second publication of ${kind} with ${mode}, at the target or at another, is a repetition or refused`, async () => {
      const volume = await node.staged(make(mode));
      const target = node.targetPath(volume.volumeId);
      const readonly = mode === READER;
      for (let time = 0; time < 3; time += 1) await node.publish(volume, make(mode), { readonly });
      const others: [Message, object][] = [
        [make(mode), { readonly: !readonly }],
        [make(mode === MULTI ? WRITER : MULTI), { readonly }],
        [kind === 'mount' ? blockCapability(mode) : mountCapability('ext4', mode), { readonly }],
        [make(mode), { readonly, staging_target_path: node.stagingPath('elsewhere') }],
      ];
      for (const [capability, fields] of others) {
        const answer = node.publish(volume, capability, { ...fields });
        await refused(answer, 'ALREADY_EXISTS', /with other arguments/);
      }
      await node.publish(volume, make(mode), { readonly, secrets: { token: 'differs' } });
      if (mode === MULTI) return node.cleared(volume, target);

      const second = node.targetPath('second');
      for (const fields of [{}, { readonly: true }]) {
        const answer = node.publish(volume, make(mode), { ...fields, target_path: second });
        await refused(answer, 'FAILED_PRECONDITION', new RegExp(`${target}.*${mode}`));
      }
      const multi = node.publish(volume, make(MULTI), { target_path: second });
      const refusal = mode === READER ? /read-only/ : /another volume_capab/;
      await refused(multi, 'FAILED_PRECONDITION', refusal);
      assert.equal(existsSync(second), false);
      await node.cleared(volume, target);
    });
  }

  test(`NP4, NP9: a volume of ${kind} with ${MULTI} has several targets at once, and one capability`, async () => {
    const volume = await node.staged(make(MULTI));
    const targets = ['a', 'b', 'c'].map((name) => node.targetPath(name));
    for (let time = 0; time < 2; time += 1) {
      for (const target_path of targets) await node.publish(volume, make(MULTI), { target_path });
    }
    assert.equal(node.held().mounts.length, 4);
    const other = { target_path: node.targetPath('d') };
    const answer = node.publish(volume, make(WRITER), other);
    await refused(answer, 'FAILED_PRECONDITION', /allows one target at a time/);
    for (const mode of ['READER_ONLY', 'SINGLE_WRITER', 'MULTI_WRITER']) {
      const nodes = node.publish(volume, make(`MULTI_NODE_${mode}`), other);
      await refused(nodes, 'FAILED_PRECONDITION', /not supported|that were made with it/);
    }
    assert.equal(existsSync(other.target_path), false);
    await node.unpublish(volume, { target_path: targets[1] });
    await refused(node.unstage(volume), 'FAILED_PRECONDITION', /still published/);
    const records = await node.catalogue.publications(volume.volumeId);
    assert.equal(records.length, 2);
    // Recorded before a reboot, and gone since: no target any more.
    const gone = { targetPath: node.targetPath('gone'), resolvedPath: node.targetPath('gone') };
    await node.catalogue.putPublication({ ...(records[0] ?? assert.fail()), ...gone });
    await node.publish(volume, make(MULTI), other);
    const published = (await node.catalogue.publications(volume.volumeId)).map(({ targetPath }) => targetPath);
    assert.deepEqual(published.sort(), [targets[0], targets[2], other.target_path]);
    await node.cleared(volume, ...targets, other.target_path);
  });

  test(`a publication from before a reboot does not count, ${kind}`, async () => {
    const volume = await node.staged(make());
    await node.publish(volume, make());
    // After a reboot the mounts and loop devices are gone; files and records are there.
    for (const path of node.held().mounts.reverse()) execFileSync('umount', [path]);
    await node.backend.attachments.detach(volume.volumeId);
    await node.stage(volume, make());
    const next = node.targetPath('after-reboot');
    await node.publish(volume, make(), { target_path: next });
    await node.cleared(volume, node.targetPath(volume.volumeId), next);
  });

  test(`a mount without a record is adopted if it matches the request, ${kind}`, async () => {
    const volume = await node.staged(make());
    const target = node.targetPath(volume.volumeId);
    await node.publish(volume, make(), { readonly: true });
    await node.catalogue.removePublication(target);
    await node.catalogue.removeStaging(volume.volumeId, node.stagingPath(volume.volumeId));
    await node.stage(volume, make());
    await refused(node.publish(volume, make()), 'ALREADY_EXISTS');
    await node.publish(volume, make(), { readonly: true });
    assert.equal((await node.catalogue.publications(volume.volumeId)).length, 1);
    // The end of a publication clears every layer.
    for (let time = 0; time < 3; time += 1) execFileSync('mount', ['--bind', target, target]);
    await node.catalogue.removePublication(target);
    await node.cleared(volume, target);
  });
}

test(`NP4, NP7: each target of a mount with ${MULTI} is read-only or writable by itself`, async () => {
  const capability = mountCapability('ext4', MULTI);
  const volume = await node.staged(capability);
  const [writer, reader] = [node.targetPath('writer'), node.targetPath('reader')];
  await node.publish(volume, capability, { target_path: reader, readonly: true });
  await node.publish(volume, capability, { target_path: writer });
  writeFileSync(`${writer}/data`, 'shared', { flush: true });
  assert.equal(readFileSync(`${reader}/data`, 'utf8'), 'shared');
  assert.throws(() => writeFileSync(`${reader}/x`, ''), /EROFS/);
  // As a kill between the bind and its read-only flag leaves it.
  execFileSync('mount', ['-o', 'remount,bind,rw', reader]);
  writeFileSync(`${reader}/x`, '');
  await node.publish(volume, capability, { target_path: reader, readonly: true });
  assert.throws(() => writeFileSync(`${reader}/y`, ''), /EROFS/);
  await node.cleared(volume, writer, reader);
});

test(`NP7: all targets of a block volume with ${MULTI} are read-only or none, as the device is`, async () => {
  const capability = blockCapability(MULTI);
  const volume = await node.staged(capability);
  const [first, second] = [node.targetPath('first'), node.targetPath('second')];
  for (const readonly of [true, false]) {
    await node.publish(volume, capability, { target_path: first, readonly });
    const answer = node.publish(volume, capability, { target_path: second, readonly: !readonly });
    await refused(answer, 'FAILED_PRECONDITION', /either read-only or writable for all its users/);
    assert.equal(await node.deviceReadOnly(volume), readonly);
    await node.publish(volume, capability, { target_path: second, readonly });
    await node.unpublish(volume, { target_path: first });
    assert.equal(await node.deviceReadOnly(volume), readonly, 'the other target still is');
    await node.unpublish(volume, { target_path: second });
    assert.equal(await node.deviceReadOnly(volume), false);
  }
  await node.cleared(volume);
});

test('NP7: a raw volume is read-only only as long as a publication asks for it', async () => {
  const volume = await node.staged(blockCapability());
  const target = node.targetPath(volume.volumeId);
  await node.publish(volume, blockCapability(), { readonly: true });
  assert.ok(statSync(target).isBlockDevice());
  assert.throws(() => writeBlock(target), /EPERM/);
  await node.unpublish(volume);
  assert.equal(await node.deviceReadOnly(volume), false);
  // As a kill leaves it.
  const device = await node.attachedPath(volume);
  execFileSync('blockdev', ['--setro', device]);
  await node.publish(volume, blockCapability());
  writeBlock(target);
  await node.unpublish(volume);
  await node.publish(volume, blockCapability(READER));
  assert.throws(() => writeBlock(target), /EPERM/);
  await node.unpublish(volume);
  execFileSync('blockdev', ['--setro', device]);
  await node.cleared(volume);
  assert.equal(execFileSync('blockdev', ['--getro', device], { encoding: 'utf8' }).trim(), '0');
});

test('mount flags a bind can take are applied to the publication', async () => {
  const volume = await node.staged(mountCapability('', WRITER, ['noatime']));
  const flags = ['noatime', 'nosuid,nodev', 'discard'];
  await node.publish(volume, mountCapability('', WRITER, flags));
  const line = execFileSync('grep', [`pods/${volume.volumeId}`, '/proc/self/mountinfo'], { encoding: 'utf8' });
  assert.match(line, /rw,nosuid,nodev,noatime/);
  await node.cleared(volume, node.targetPath(volume.volumeId));
});

test('a target that is a link or a foreign mount is refused and not changed', async () => {
  const volume = await node.staged();
  const real = workspace.path('real');
  mkdirSync(real);
  const link = node.targetPath('link');
  symlinkSync(real, link);
  const at = (target_path: string): Promise<unknown> => node.publish(volume, mountCapability(), { target_path });
  await refused(at(link), 'FAILED_PRECONDITION', /symbolic link/);
  await refused(node.unpublish(volume, { target_path: link }), 'FAILED_PRECONDITION', /link/);
  assert.ok(existsSync(link));
  rmSync(link);
  const foreign = node.targetPath('foreign');
  mkdirSync(foreign);
  execFileSync('mount', ['-t', 'tmpfs', 'tmpfs', foreign]);
  await refused(at(foreign), 'FAILED_PRECONDITION', /something else mounted/);
  const left = node.unpublish(volume, { target_path: foreign });
  await refused(left, 'FAILED_PRECONDITION', /something else mounted/);
  execFileSync('umount', [foreign]);
  rmSync(foreign, { recursive: true });
  const staging_target_path = workspace.path('staging-link');
  symlinkSync(node.stagingPath(volume.volumeId), staging_target_path);
  const viaLink = node.publish(volume, mountCapability(), { staging_target_path });
  await refused(viaLink, 'FAILED_PRECONDITION', /not staged/);
  await node.cleared(volume);
});

test('NQ2, NQ4: what is not published, or of an unknown volume, is unpublished', async () => {
  const unknown = { volume_id: 'some-id', target_path: '/some/path' };
  await node.call('NodeUnpublishVolume', unknown);
  const nowhere = { ...unknown, target_path: 'relative' };
  await refused(node.call('NodeUnpublishVolume', nowhere), 'NOT_FOUND');
  const volume = await node.makeVolume();
  for (let time = 0; time < 3; time += 1) await node.unpublish(volume);
});

test("another volume's publication is not unpublished", async () => {
  const [first, second] = [await node.staged(), await node.makeVolume()];
  await node.publish(first, mountCapability());
  const target_path = node.targetPath(first.volumeId);
  await refused(node.unpublish(second, { target_path }), 'FAILED_PRECONDITION', /else/);
  const unknown = { target_path, volume_id: 'none-exist-id' };
  await refused(node.call('NodeUnpublishVolume', unknown), 'FAILED_PRECONDITION', /else/);
  await node.cleared(first, target_path);
});
