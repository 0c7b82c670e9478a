/**
 * A process that uses one new volume after the other, all the way from staging to unstaging, until it
 * is killed: empty ones, and copies that are larger than their snapshot. Says WROTE <volume id> once a
 * file is durable in the volume.
 *
 *   node node-process.js <workspace directory> <turn to begin with> [<snapshot id> of ext4, of xfs, of btrfs]
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { FILE_SYSTEMS } from '../../src/host/file-systems.js';
import { blockCapability, mountCapability, openNode, XFS_SIZE } from './node-fixture.js';

const [directory = '', firstTurn = '0', ...snapshots] = process.argv.slice(2);
const KINDS = [
  ...FILE_SYSTEMS.map((type) => ({ capability: mountCapability(type), snapshotId: null })),
  { capability: blockCapability(), snapshotId: null },
  ...snapshots.map((snapshotId, index) => ({
    capability: mountCapability(FILE_SYSTEMS[index]),
    snapshotId,
  })),
];

const node = await openNode({
  directory,
  path: (...names) => join(directory, ...names),
  dispose: () => undefined,
});
process.stdout.write('READY\n');
for (let turn = Number(firstTurn); ; turn += 1) {
  const index = turn % KINDS.length;
  const { capability, snapshotId } = KINDS[index] ?? { capability: {}, snapshotId: null };
  const volume = await node.makeVolume({
    sizeBytes: snapshotId === null ? XFS_SIZE : 3n * XFS_SIZE,
    sourceSnapshotId: snapshotId,
    pristine: snapshotId === null,
    parameters: { turn: `${index}` },
  });
  const readonly = { readonly: turn % 2 === 1 };
  await node.stage(volume, capability);
  if (capability['mount'] !== null) {
    const file = `${node.stagingPath(volume.volumeId)}/file`;
    writeFileSync(file, volume.volumeId, { flush: true });
    process.stdout.write(`WROTE ${volume.volumeId}\n`);
  }
  await node.publish(volume, capability, readonly);
  await node.enlarge(volume, 4n * XFS_SIZE);
  // Without CAP_SYS_RESOURCE ext4 is grown at the next staging.
  await node.expand(volume).catch(() => undefined);
  await node.unpublish(volume);
  await node.unstage(volume);
}
