import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync, statfsSync, writeFileSync } from 'node:fs';
import { basename } from 'node:path';
import { SystemError } from '../../src/base/errors.js';
import type { VolumeRecord } from '../../src/catalogue/records.js';
import { FILE_SYSTEMS } from '../../src/host/file-systems.js';
import { canGrowMounted } from '../../src/host/growth.js';
import { notPermitted } from '../../src/node/expand-volume.js';
import { rejectsWith } from '../support/expect-status.js';
import { MIB } from '../support/records.js';
import { test as rootTest } from '../support/running-plugin.js';
import { blockCapability, mountCapability, SIZE, useNode, XFS_SIZE } from './node-fixture.js';

type Message = Record<string, unknown>;

const node = useNode('node-expand');

const READER = 'SINGLE_NODE_READER_ONLY';
const LARGER = 1024n * MIB;

const bytesAt = (path: string): bigint => {
  const { blocks, bsize } = statfsSync(path, { bigint: true });
  return blocks * bsize;
};

const expand = (volume: VolumeRecord, volume_path: string, fields: Message = {}) =>
  node.expand(volume, { volume_path, ...fields });

const range = (required: bigint, limit = 0n): Message => ({
  capacity_range: { required_bytes: required.toString(), limit_bytes: limit.toString() },
});

rootTest(
  'NE2, NE9: an unknown volume, and a known one that is not at the path, are NOT_FOUND',
  async () => {
    const volume = await node.makeVolume();
    const unknown = { volume_id: 'fake-vol-id-0123456789', volume_path: 'some/path' };
    await rejectsWith(node.call('NodeExpandVolume', unknown), 'NOT_FOUND');
    const staging = node.stagingPath(volume.volumeId);
    await rejectsWith(expand(volume, staging), 'NOT_FOUND', /neither staged nor published/);
    await node.stage(volume, mountCapability());
    for (const path of ['some/path', '/no/such/path', `${staging}/..`, node.workspace.directory]) {
      await rejectsWith(expand(volume, path), 'NOT_FOUND', /neither staged nor published/);
    }
    await node.unstage(volume);
  },
);

for (const type of FILE_SYSTEMS) {
  rootTest(
    `NE3, NE4: ${type} in use is grown to its device, and growing it again is OK`,
    async () => {
      const volume = await node.makeVolume({ sizeBytes: XFS_SIZE });
      await node.stage(volume, mountCapability(type));
      await node.publish(volume, mountCapability(type));
      const [staging, target] = [
        node.stagingPath(volume.volumeId),
        node.targetPath(volume.volumeId),
      ];
      writeFileSync(`${target}/data`, 'kept');
      assert.equal((await expand(volume, target))['capacity_bytes'], XFS_SIZE.toString());
      await node.enlarge(volume, LARGER);
      const isAble = await canGrowMounted(type);
      const requests: [string, Message][] = [
        [target, { ...range(LARGER), volume_capability: mountCapability(type) }],
        [staging, {}],
        [target, range(1n, LARGER)],
      ];
      for (const [path, fields] of requests) {
        const answer = expand(volume, path, fields);
        if (isAble) assert.equal((await answer)['capacity_bytes'], LARGER.toString());
        else await rejectsWith(answer, 'FAILED_PRECONDITION', /CAP_SYS_RESOURCE.*unstage/);
      }
      assert.equal(bytesAt(target) > (LARGER * 8n) / 10n, isAble);
      assert.equal(readFileSync(`${target}/data`, 'utf8'), 'kept');
      await node.unpublish(volume);
      await node.unstage(volume);
      // The way out that the message names.
      await node.stage(volume, mountCapability(type));
      assert.ok(bytesAt(staging) > (LARGER * 8n) / 10n);
      assert.equal((await expand(volume, staging))['capacity_bytes'], LARGER.toString());
      await node.unstage(volume);
    },
  );
}

rootTest('EPERM is attributed to a capability only if that is missing', async () => {
  const cause = new SystemError('EPERM', 'EXT4_IOC_RESIZE_FS', '/x', 'not permitted');
  const said = (type: string, isAble: boolean): string =>
    notPermitted('vol-1', type, isAble, cause).message;
  assert.match(said('ext4', false), /plugin lacks CAP_SYS_RESOURCE/);
  assert.match(said('ext4', true), /has recorded errors; unpublish, unstage and stage/);
  assert.match(said('xfs', true), /plugin lacks CAP_SYS_ADMIN/);
  const isAble = await canGrowMounted('ext4');
  const volume = await node.makeVolume();
  await node.stage(volume, mountCapability('ext4'));
  // As the kernel sees an error: EPERM for whoever may resize, too.
  const name = basename(await node.attachedPath(volume));
  writeFileSync(`/sys/fs/ext4/${name}/trigger_fs_error`, 'made by a test');
  await node.enlarge(volume, LARGER);
  const reason = isAble ? /has recorded errors/ : /CAP_SYS_RESOURCE/;
  await rejectsWith(node.expand(volume), 'FAILED_PRECONDITION', reason);
  await node.unstage(volume);
  // The way out that both messages name.
  await node.stage(volume, mountCapability('ext4'));
  assert.ok(bytesAt(node.stagingPath(volume.volumeId)) > (LARGER * 8n) / 10n);
  await node.unstage(volume);
});

rootTest('NE5: a file system that is mounted read-only cannot grow while in use', async () => {
  const volume = await node.makeVolume({ sizeBytes: XFS_SIZE });
  await node.stage(volume, mountCapability('xfs'));
  await node.unstage(volume);
  await node.stage(volume, mountCapability('xfs', READER));
  await node.enlarge(volume, LARGER);
  const staging = node.stagingPath(volume.volumeId);
  await rejectsWith(expand(volume, staging), 'FAILED_PRECONDITION', /mounted read-only/);
  await node.unstage(volume);
});

rootTest('a read-only publication is grown through its writable staging mount', async () => {
  const volume = await node.makeVolume({ sizeBytes: XFS_SIZE });
  await node.stage(volume, mountCapability('xfs'));
  await node.publish(volume, mountCapability('xfs'), { readonly: true });
  await node.enlarge(volume, LARGER);
  const target = node.targetPath(volume.volumeId);
  assert.equal((await expand(volume, target))['capacity_bytes'], LARGER.toString());
  assert.ok(bytesAt(target) > (LARGER * 8n) / 10n);
  await node.unpublish(volume);
  await node.unstage(volume);
});

rootTest(
  'NE6: a range that excludes the size of the volume is OUT_OF_RANGE, an invalid range INVALID_ARGUMENT',
  async () => {
    const volume = await node.makeVolume();
    await node.stage(volume, mountCapability());
    const path = node.stagingPath(volume.volumeId);
    const over = expand(volume, path, range(SIZE + 1n));
    await rejectsWith(over, 'OUT_OF_RANGE', /call ControllerExpandVolume first/);
    await rejectsWith(expand(volume, path, range(0n, SIZE - 1n)), 'OUT_OF_RANGE', /do not shrink/);
    for (const bad of [range(0n), range(-1n), range(2n, 1n)]) {
      await rejectsWith(expand(volume, path, bad), 'INVALID_ARGUMENT', /capacity_range/);
    }
    await node.unstage(volume);
  },
);

rootTest(
  'NE7: an unsupported capability, or one that does not match the path, is INVALID_ARGUMENT',
  async () => {
    const volume = await node.makeVolume();
    await node.stage(volume, mountCapability());
    const path = node.stagingPath(volume.volumeId);
    for (const volume_capability of [
      mountCapability('', 'MULTI_NODE_MULTI_WRITER'),
      mountCapability('ext3'),
      blockCapability(),
      { mount: null, block: null, access_mode: { mode: 'SINGLE_NODE_WRITER' } },
    ]) {
      await rejectsWith(expand(volume, path, { volume_capability }), 'INVALID_ARGUMENT');
    }
    await node.unstage(volume);
  },
);

rootTest(
  'NE8: a raw block volume is recognised by its path, and has the size of its device',
  async () => {
    const volume = await node.makeVolume();
    await node.stage(volume, blockCapability());
    await node.publish(volume, blockCapability());
    const target = node.targetPath(volume.volumeId);
    await node.enlarge(volume, LARGER);
    for (const fields of [{}, { volume_capability: blockCapability() }, range(LARGER)]) {
      for (const path of [target, node.stagingPath(volume.volumeId)]) {
        assert.equal((await expand(volume, path, fields))['capacity_bytes'], LARGER.toString());
      }
    }
    const size = execFileSync('blockdev', ['--getsize64', target], { encoding: 'utf8' });
    assert.equal(BigInt(size.trim()), LARGER);
    await node.unpublish(volume);
    await node.unstage(volume);
  },
);

rootTest('a device that a killed controller left small is grown first', async () => {
  const volume = await node.makeVolume();
  await node.stage(volume, blockCapability());
  // The file has grown and the record says so; the loop device was not told.
  const file = node.workspace.path('xfs.pool', 'volumes', volume.volumeId);
  execFileSync('truncate', ['-s', LARGER.toString(), file]);
  await node.catalogue.setVolumeSize(volume.volumeId, LARGER);
  const answer = await expand(volume, node.stagingPath(volume.volumeId));
  assert.equal(answer['capacity_bytes'], LARGER.toString());
  await node.unstage(volume);
});
