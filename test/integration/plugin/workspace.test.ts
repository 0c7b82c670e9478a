/** The tests' own clean-up, where a test file does not reach its end, or a plugin had mounts of its own. */
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { basename } from 'node:path';
import { test } from 'node:test';
import { packagePath } from '../../../src/base/package-root.js';
import { eventually } from '../../support/eventually.js';
import { MIB, Orchestrator } from '../../support/orchestrator.js';
import { Plugin } from '../../support/plugin.js';
import { loopsBelow, mountsBelow, removeLeftBehind, skipUnlessRoot, Workspace } from '../../support/workspace.js';

const PROGRAM = packagePath('.test-build/test/support/waiting-workspace.js');

for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
  test(`a test file that ${signal} ends leaves no mount, device, process or file`, {
    skip: skipUnlessRoot,
  }, async () => {
    const child = spawn(process.execPath, [PROGRAM], { stdio: ['ignore', 'pipe', 'inherit'] });
    const [printed] = (await once(child.stdout, 'data')) as [Buffer];
    const directory = printed.toString().trim();
    assert.notDeepEqual([mountsBelow(directory), loopsBelow(directory)], [[], []]);
    child.kill(signal);
    await once(child, 'exit');
    assert.deepEqual([mountsBelow(directory), loopsBelow(directory)], [[], []]);
    // A process that had its directory there would keep the mount.
    assert.equal(existsSync(directory), false);
  });
}

/** A loop device as it is now: the number of a device that is detached goes to the next one. */
const attachmentOf = (device: string): string | null =>
  existsSync(`/sys/block/${device}/loop`) ? readFileSync(`/sys/block/${device}/diskseq`, 'utf8') : null;

/** Kernel names of the devices of a volume and of the image of its pool, wherever they were attached. */
function devicesOf(volumeId: string, image: string): string[] {
  const { ino } = statSync(image);
  const options = ['--list', '--json', '--output', 'NAME,BACK-FILE,BACK-INO'];
  const printed = execFileSync('losetup', options, { encoding: 'utf8' });
  const { loopdevices } = JSON.parse(printed) as { loopdevices: Record<string, string>[] };
  return loopdevices
    .filter((each) => each['back-file']?.includes(volumeId) || `${each['back-ino']}` === `${ino}`)
    .map(({ name = '' }) => basename(name));
}

const CLEAN_UPS: Readonly<Record<string, (workspace: Workspace) => void>> = {
  'the test itself': (workspace) => workspace.dispose(),
  'who ends the tests': ({ directory }) => removeLeftBehind(directory),
};

for (const [who, cleanUp] of Object.entries(CLEAN_UPS)) {
  test(`devices of a plugin whose mount namespace has ended are detached by ${who}`, {
    skip: skipUnlessRoot,
  }, async () => {
    const workspace = new Workspace('namespace');
    try {
      const by = ['unshare', '--mount', '--propagation', 'private'];
      const plugin = await Plugin.start(workspace, { by });
      const orchestrator = new Orchestrator(workspace, () => plugin.client);
      const volume = await orchestrator.create('raw', { sizeBytes: 16 * MIB });
      await orchestrator.stage(volume);
      await plugin.kill();
      const image = workspace.path('plugin', 'pools', 'default', 'pool.img');
      const attached = devicesOf(volume.id, image).map((device) => [device, attachmentOf(device)] as const);
      assert.equal(attached.length, 2, 'the volume and the image of the pool');
      assert.deepEqual(loopsBelow(workspace.directory).length, 1, 'one has no name of the directory');
      cleanUp(workspace);
      for (const [device, attachment] of attached) {
        await eventually(`${device} is detached`, () => attachmentOf(device) !== attachment);
      }
    } finally {
      if (existsSync(workspace.directory)) workspace.dispose();
    }
  });
}
