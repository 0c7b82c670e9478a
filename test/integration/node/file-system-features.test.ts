/** What mkfs makes with the plugin's arguments is mounted by the oldest supported kernel, whatever the tool's defaults are. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { after } from 'node:test';
import { FILE_SYSTEMS, MINIMUM_BYTES } from '../../../src/driver/host/file-systems.js';
import { makeArguments, makeFileSystem, makePoolFileSystem } from '../../../src/driver/host/filesystem.js';
import { assertMountable, featuresOf } from '../../support/file-system-features.js';
import { attachLoop, sparseFile } from '../../support/loops.js';
import { test } from '../../support/running-plugin.js';
import { Workspace } from '../../support/workspace.js';

const workspace = new Workspace('file-system-features');
after(() => workspace.dispose());

const image = (name: string, bytes: bigint): string => sparseFile(workspace.path(name), bytes);

for (const type of FILE_SYSTEMS) {
  test(`the oldest supported kernel mounts a new ${type}`, async () => {
    const path = image(type, MINIMUM_BYTES[type]);
    const device = attachLoop(path);
    await makeFileSystem(type, device, MINIMUM_BYTES[type]);
    assertMountable(type, device);
  });
}

test('the oldest supported kernel mounts the image of a pool', async () => {
  const path = image('pool', MINIMUM_BYTES.xfs);
  await makePoolFileSystem(path, null);
  assertMountable('xfs', path);
});

test('an ext4 has the same features whatever mke2fs.conf has, and those that a StorageClass names', () => {
  const conf = workspace.path('mke2fs.conf');
  const newer = 'features = extent,metadata_csum,metadata_csum_seed,orphan_file';
  writeFileSync(conf, `[defaults]\nbase_features = ext_attr\n[fs_types]\next4 = {\n${newer}\n}\n`);
  const path = image('configured', MINIMUM_BYTES.ext4);
  const made = (args: string[]): string[] => {
    const env = { ...process.env, MKE2FS_CONFIG: conf };
    execFileSync('mkfs.ext4', [...args, path], { env, stdio: 'pipe' });
    return featuresOf('ext4', path);
  };
  assert.ok(made(['-F', '-q']).includes('metadata_csum_seed'), 'the configuration is used');
  const ours = made(makeArguments('ext4', '', []));
  assertMountable('ext4', path);
  assert.ok(!ours.includes('metadata_csum_seed') && ours.includes('has_journal'));
  const asked = made(makeArguments('ext4', '', ['-O', 'metadata_csum_seed,^has_journal']));
  const expected = [...ours, 'metadata_csum_seed'].filter((name) => name !== 'has_journal');
  assert.deepEqual(asked.sort(), expected.sort());
});
