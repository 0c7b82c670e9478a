/**
 * A process that uses one new volume after the other, all the way from staging to unstaging, until it
 * is killed. Says WROTE <volume id> once a file is durable in the volume.
 *
 *   node node-process.js <workspace directory>
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { blockCapability, mountCapability, openNode, XFS_SIZE } from './node-fixture.js';

const CAPABILITIES = [mountCapability('ext4'), mountCapability('xfs'), blockCapability()];

const directory = process.argv[2] ?? '';
const node = await openNode({
  directory,
  path: (...names) => join(directory, ...names),
  dispose: () => undefined,
});
process.stdout.write('READY\n');
for (let turn = 0; ; turn += 1) {
  const capability = CAPABILITIES[turn % CAPABILITIES.length] ?? blockCapability();
  const volume = await node.makeVolume({
    sizeBytes: XFS_SIZE,
    parameters: { turn: `${turn % 3}` },
  });
  const readonly = { readonly: turn % 2 === 1 };
  await node.stage(volume, capability);
  if (capability['mount'] !== null) {
    const file = `${node.stagingPath(volume.volumeId)}/file`;
    writeFileSync(file, volume.volumeId, { flush: true });
    process.stdout.write(`WROTE ${volume.volumeId}\n`);
  }
  await node.publish(volume, capability, readonly);
  await node.unpublish(volume);
  await node.unstage(volume);
}
