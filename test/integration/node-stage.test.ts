import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { newSnapshotId, nodeKey } from '../../src/domain/identifiers.js';
import { FILE_SYSTEMS } from '../../src/host/file-systems.js';
import { rejectsWith } from '../support/expect-status.js';
import { test as rootTest } from '../support/running-plugin.js';
import { blockCapability, mountCapability, NOTHING, useNode, XFS_SIZE } from './node-fixture.js';

const node = useNode('node-stage');
const { workspace } = node;

const READER = 'SINGLE_NODE_READER_ONLY';

rootTest(
  'NS2, NS3: an unknown volume is NOT_FOUND whatever the path, a relative path INVALID_ARGUMENT',
  async () => {
    const request = {
      volume_id: 'fake-vol-id-0123456789',
      staging_target_path: 'some/path',
      volume_capability: mountCapability(),
    };
    await rejectsWith(node.call('NodeStageVolume', request), 'NOT_FOUND');
    const volume = await node.makeVolume();
    const capability = mountCapability();
    for (const path of ['some/path', `${workspace.directory}/../x`]) {
      const staged = node.stage(volume, capability, { staging_target_path: path });
      await rejectsWith(staged, 'INVALID_ARGUMENT', /staging_target_path/);
    }
    await node.catalogue.setVolumeState(volume.volumeId, 'creating');
    await rejectsWith(node.stage(volume, capability), 'NOT_FOUND');
    await node.catalogue.setVolumeState(volume.volumeId, 'deleting');
    await rejectsWith(node.stage(volume, capability), 'FAILED_PRECONDITION', /has not completed/);
  },
);

rootTest(
  'NS5: staging with another capability at the same path answers ALREADY_EXISTS',
  async () => {
    const volume = await node.makeVolume();
    await node.stage(volume, mountCapability('ext4'));
    for (const other of [
      mountCapability(''),
      mountCapability('xfs'),
      mountCapability('ext4', READER),
      mountCapability('ext4', 'SINGLE_NODE_WRITER', ['noatime']),
      blockCapability(),
    ]) {
      await rejectsWith(node.stage(volume, other), 'ALREADY_EXISTS', new RegExp(volume.volumeId));
    }
    await node.stage(volume, mountCapability('ext4'));
    await node.unstage(volume);
  },
);

rootTest('NS6 and NP11: an unsupported capability is FAILED_PRECONDITION', async () => {
  const volume = await node.makeVolume();
  for (const capability of [
    mountCapability('', 'MULTI_NODE_MULTI_WRITER'),
    blockCapability('MULTI_NODE_SINGLE_WRITER'),
    mountCapability('ext3'),
    { ...mountCapability(), mount: { fs_type: '', mount_flags: [], volume_mount_group: '7' } },
  ]) {
    await rejectsWith(node.stage(volume, capability), 'FAILED_PRECONDITION', /not supported/);
  }
  assert.deepEqual(node.held(), NOTHING);
  const tricky = mountCapability('', 'SINGLE_NODE_WRITER', ['noatime', 'bind']);
  await rejectsWith(node.stage(volume, tricky), 'INVALID_ARGUMENT', /mount_flags/);
});

rootTest('NS7: a publish_context is accepted and ignored', async () => {
  const volume = await node.makeVolume();
  const publish_context = { anything: 'at all' };
  await node.stage(volume, mountCapability(), { publish_context });
  await node.stage(volume, mountCapability());
  const large = { publish_context: { key: 'v'.repeat(4096) } };
  await rejectsWith(
    node.stage(volume, mountCapability(), large),
    'INVALID_ARGUMENT',
    /publish_context/,
  );
  await node.unstage(volume);
});

rootTest(
  'NS8: a foreign volume_context is invalid, the keys of the orchestrator are not',
  async () => {
    const volume = await node.makeVolume();
    const foreign = { volume_context: { key: 'value' } };
    await rejectsWith(
      node.stage(volume, mountCapability(), foreign),
      'INVALID_ARGUMENT',
      /context/,
    );
    await node.stage(volume, mountCapability(), {
      volume_context: { 'storage.kubernetes.io/csiProvisionerIdentity': 'x' },
      secrets: { 'any.key': 'value' },
      publish_context: {},
    });
    const secrets = { secrets: { 'bad key': 'value' } };
    await rejectsWith(
      node.stage(volume, mountCapability(), secrets),
      'INVALID_ARGUMENT',
      /secrets/,
    );
    await node.unstage(volume);
  },
);

for (const [fsType, expected] of [
  ['', 'ext4'],
  ['ext4', 'ext4'],
  ['xfs', 'xfs'],
  ['btrfs', 'btrfs'],
] as const) {
  rootTest(
    `a pristine volume staged as '${fsType}' gets ${expected}, once, and keeps its data`,
    async () => {
      const volume = await node.makeVolume({ sizeBytes: XFS_SIZE });
      const staging = node.stagingPath(volume.volumeId);
      await node.stage(volume, mountCapability(fsType));
      assert.equal((await node.catalogue.volumeById(volume.volumeId))?.pristine, false);
      writeFileSync(`${staging}/data`, 'kept');
      await node.unstage(volume);
      await node.stage(volume, mountCapability(fsType));
      assert.equal(readFileSync(`${staging}/data`, 'utf8'), 'kept');
      await node.unstage(volume);
      const other = expected === 'xfs' ? 'ext4' : 'xfs';
      const staged = node.stage(volume, mountCapability(other));
      await rejectsWith(staged, 'FAILED_PRECONDITION', new RegExp(`type ${expected}.*nothing was`));
      assert.deepEqual(node.held(), NOTHING);
      await node.stage(volume, mountCapability(''));
      assert.equal(readFileSync(`${staging}/data`, 'utf8'), 'kept');
      await node.unstage(volume);
    },
  );
}

rootTest(
  'xfs on a volume that is too small is refused, and the volume stays pristine',
  async () => {
    const volume = await node.makeVolume();
    await rejectsWith(
      node.stage(volume, mountCapability('xfs')),
      'FAILED_PRECONDITION',
      /314572800/,
    );
    assert.deepEqual(node.held(), NOTHING);
    await node.stage(volume, mountCapability('ext4'));
    await node.unstage(volume);
  },
);

rootTest('a formatted volume that was never marked initialized is formatted again', async () => {
  const volume = await node.makeVolume({ sizeBytes: XFS_SIZE });
  const { backend } = node;
  const markInitialized = backend.markInitialized.bind(backend);
  const fails = async (): Promise<void> => {
    throw new Error('dead');
  };
  backend.markInitialized = fails;
  for (const capability of [mountCapability('xfs'), blockCapability()]) {
    await assert.rejects(node.stage(volume, capability), /dead/);
    // The pool comes first: of the two marks, the catalogue's is never there alone.
    assert.equal((await node.catalogue.volumeById(volume.volumeId))?.pristine, true);
    assert.deepEqual(node.held(), NOTHING);
  }
  backend.markInitialized = markInitialized;
  await node.stage(volume, mountCapability('ext4'));
  assert.equal(await backend.isInitialized(volume.volumeId), true);
  await node.unstage(volume);
});

rootTest(
  'a volume that its pool marks initialized is not formatted, although its record says pristine',
  async () => {
    const volume = await node.makeVolume();
    await node.backend.markInitialized([volume.volumeId]);
    const staged = node.stage(volume, mountCapability('ext4'));
    await rejectsWith(staged, 'FAILED_PRECONDITION', /no known signature.*nothing was formatted/);
    await node.stage(volume, blockCapability());
    assert.equal((await node.catalogue.volumeById(volume.volumeId))?.pristine, false);
    await node.unstage(volume);
  },
);

rootTest(
  'a volume that was used raw is not formatted, and the error names its content',
  async () => {
    const volume = await node.makeVolume();
    await node.stage(volume, blockCapability());
    await node.unstage(volume);
    const capability = mountCapability('ext4');
    const nothing = /no known signature.*nothing was formatted/;
    await rejectsWith(node.stage(volume, capability), 'FAILED_PRECONDITION', nothing);
    await node.stage(volume, blockCapability());
    execFileSync('mkswap', [`${node.stagingPath(volume.volumeId)}/device`], { stdio: 'pipe' });
    await node.unstage(volume);
    await rejectsWith(node.stage(volume, capability), 'FAILED_PRECONDITION', /holds swap/);
    assert.deepEqual(node.held(), NOTHING);
  },
);

rootTest('a raw volume is staged as a device node of its device', async () => {
  const volume = await node.makeVolume();
  await node.stage(volume, blockCapability());
  const staged = statSync(`${node.stagingPath(volume.volumeId)}/device`);
  assert.equal(staged.rdev, statSync(await node.attachedPath(volume)).rdev);
  assert.equal((await node.catalogue.volumeById(volume.volumeId))?.pristine, false);
  await node.unstage(volume);
  assert.deepEqual(node.held(), NOTHING);
});

for (const fsType of FILE_SYSTEMS) {
  rootTest(
    `a snapshot of ${fsType} in use is restored beside its source, and read-only too`,
    async () => {
      const source = await node.makeVolume({ sizeBytes: XFS_SIZE });
      await node.stage(source, mountCapability(fsType));
      const file = `${node.stagingPath(source.volumeId)}/data`;
      writeFileSync(file, 'cut', { flush: true });
      const snapshotId = newSnapshotId(nodeKey('test-node'));
      await node.backend.createSnapshots([{ volumeId: source.volumeId, snapshotId }]);
      writeFileSync(file, 'later');
      for (const mode of ['SINGLE_NODE_WRITER', READER]) {
        const restored = await node.makeVolume({
          sizeBytes: XFS_SIZE,
          sourceSnapshotId: snapshotId,
          pristine: false,
        });
        await node.stage(restored, mountCapability(fsType, mode));
        const staging = node.stagingPath(restored.volumeId);
        assert.equal(readFileSync(`${staging}/data`, 'utf8'), 'cut');
        if (mode === READER) assert.throws(() => writeFileSync(`${staging}/x`, ''), /EROFS/);
        else writeFileSync(`${staging}/x`, '');
        await node.unstage(restored);
      }
      await node.unstage(source);
      assert.deepEqual(node.held(), NOTHING);
    },
  );
}

rootTest('a restored volume is never formatted, even if a record says pristine', async () => {
  const source = await node.makeVolume();
  await node.stage(source, mountCapability());
  writeFileSync(`${node.stagingPath(source.volumeId)}/data`, 'cut', { flush: true });
  const snapshotId = newSnapshotId(nodeKey('test-node'));
  await node.backend.createSnapshots([{ volumeId: source.volumeId, snapshotId }]);
  await node.unstage(source);
  const restored = await node.makeVolume({ sourceSnapshotId: snapshotId, pristine: true });
  await node.stage(restored, mountCapability());
  assert.equal(readFileSync(`${node.stagingPath(restored.volumeId)}/data`, 'utf8'), 'cut');
  await node.unstage(restored);
});

rootTest('mount flags are applied, and do not appear in an error', async () => {
  const volume = await node.makeVolume();
  await node.stage(volume, mountCapability('ext4', 'SINGLE_NODE_WRITER', ['noatime,nodev']));
  const line = execFileSync('grep', [volume.volumeId, '/proc/self/mountinfo'], {
    encoding: 'utf8',
  });
  assert.match(line, /noatime/);
  await node.unstage(volume);
  const bad = mountCapability('ext4', 'SINGLE_NODE_WRITER', ['tiger=1']);
  await assert.rejects(node.stage(volume, bad), (thrown) => {
    assert.ok(thrown instanceof Error);
    assert.doesNotMatch(thrown.message, /tiger/);
    return true;
  });
  assert.deepEqual(node.held(), NOTHING);
});

rootTest('a staging path that is missing, a link, or a foreign mount is refused', async () => {
  const volume = await node.makeVolume();
  const at = (path: string): Promise<unknown> =>
    node.stage(volume, mountCapability(), { staging_target_path: path });
  await rejectsWith(at(workspace.path('absent')), 'FAILED_PRECONDITION', /absent does not exist/);
  symlinkSync(node.stagingPath('real'), workspace.path('link'));
  await rejectsWith(at(workspace.path('link')), 'FAILED_PRECONDITION', /symbolic link/);
  const foreign = node.stagingPath('foreign');
  execFileSync('mount', ['-t', 'tmpfs', 'tmpfs', foreign]);
  await rejectsWith(at(foreign), 'FAILED_PRECONDITION', /something else mounted/);
  // NU2: the volume is not staged there, so unstaging it there is done; the mount stays.
  await node.unstage(volume, { staging_target_path: foreign });
  assert.equal(node.held().mounts.length, 1);
  execFileSync('umount', [foreign]);
  assert.deepEqual(node.held(), NOTHING);
});

rootTest("a volume's staging path is not available to another volume", async () => {
  const [first, second] = [await node.makeVolume(), await node.makeVolume()];
  for (const capability of [mountCapability(), blockCapability()]) {
    const volume = capability['mount'] === null ? second : first;
    const other = volume === first ? second : first;
    await node.stage(volume, capability);
    const path = { staging_target_path: node.stagingPath(volume.volumeId) };
    await rejectsWith(node.stage(other, capability, path), 'FAILED_PRECONDITION');
    await node.unstage(other, path);
    assert.equal(node.held().mounts.length, 1, 'the other volume stays staged');
    await node.unstage(volume);
  }
});

rootTest('the device of a volume staged at two paths is detached with the last one', async () => {
  const volume = await node.makeVolume();
  const second = { staging_target_path: node.stagingPath('second') };
  await node.stage(volume, mountCapability());
  await node.stage(volume, mountCapability(), second);
  const raw = { staging_target_path: node.stagingPath('third') };
  await rejectsWith(node.stage(volume, blockCapability(), raw), 'FAILED_PRECONDITION', /in use/);
  await node.unstage(volume);
  assert.equal(node.held().loops.length, 1);
  await node.unstage(volume, second);
  assert.deepEqual(node.held(), NOTHING);
});
