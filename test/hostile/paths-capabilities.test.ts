/** Pods own the root directories of their volumes, and may take all permissions off them. */
import assert from 'node:assert/strict';
import { chmodSync, chownSync, existsSync, statSync } from 'node:fs';
import { mountCapability } from '../integration/node-fixture.js';
import { MIB, Orchestrator } from '../support/orchestrator.js';
import { Plugin } from '../support/plugin.js';
import { test as rootTest } from '../support/running-plugin.js';
import { unitCapabilities } from '../support/service-unit.js';
import { Workspace } from '../support/workspace.js';

/** Those of the unit, but for CAP_SYS_RESOURCE, which not every machine for tests has. */
const NEEDED = unitCapabilities()
  .filter((name) => name !== 'sys_resource')
  .map((name) => `+${name}`)
  .join(',');
const TYPES = ['ext4', 'xfs', 'btrfs'] as const;

function without(capabilities: string): readonly string[] {
  return ['setpriv', `--bounding-set=${capabilities}`];
}

rootTest(
  'H4: without CAP_DAC_READ_SEARCH the plugin does not start, and names the capability',
  async (t) => {
    const workspace = new Workspace('capabilities');
    t.after(() => workspace.dispose());
    const started = Plugin.start(workspace, { by: without('-dac_override,-dac_read_search') });
    await assert.rejects(started, /exited with 1:\n.*the plugin lacks CAP_DAC_READ_SEARCH/s);
    assert.equal(existsSync(workspace.path('plugin')), false, 'nothing is made before');
  },
);

rootTest(
  'H4: with the documented capabilities a root directory of mode 0 blocks nothing',
  async (t) => {
    const workspace = new Workspace('closed-root');
    t.after(() => workspace.dispose());
    const plugin = await Plugin.start(workspace, { by: without(`-all,${NEEDED}`) });
    t.after(() => plugin.kill());
    const orchestrator = new Orchestrator(workspace, () => plugin.client);
    for (const type of TYPES) {
      const sizeBytes = 320 * MIB;
      const capability = mountCapability(type);
      const volume = await orchestrator.create(`closed-${type}`, { capability, sizeBytes });
      const target = await orchestrator.bringUp(volume);
      chownSync(target, 1000, 1000);
      chmodSync(target, 0);
      const snapshot = await orchestrator.snapshot(volume, `of-${type}`);
      const { controller, node } = plugin.client;
      const use = { volume_id: volume.id, volume_path: target };
      const total = async (): Promise<number> =>
        Number((await node.NodeGetVolumeStats(use)).usage[0].total);
      const before = await total();
      const range = { required_bytes: sizeBytes + 64 * MIB };
      await controller.ControllerExpandVolume({ volume_id: volume.id, capacity_range: range });
      // That of a mounted ext4 needs CAP_SYS_RESOURCE, which not every machine for tests has.
      if (type !== 'ext4') {
        await node.NodeExpandVolume(use);
        assert.ok((await total()) > before, `${type} has grown`);
      }
      assert.equal(statSync(target).mode & 0o7777, 0);
      await orchestrator.publish(volume);
      await orchestrator.takeDown(volume);
      await orchestrator.bringUp(volume);
      await orchestrator.takeDown(volume);
      await orchestrator.deleteSnapshot(snapshot);
      await orchestrator.delete(volume);
    }
  },
);
