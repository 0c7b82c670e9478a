/** Volumes made on one node from snapshots of another, and from copies, where one of the two has a thin pool, in a nightly run. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync, rmSync } from 'node:fs';
import { after, before, type TestContext } from 'node:test';
import { runCommand } from '../support/command.js';
import { restoreCopy, untilCopied } from '../support/copied-snapshot.js';
import { eventually } from '../support/eventually.js';
import { isNightly } from '../support/nightly.js';
import { NodeCluster, untilReachable } from '../support/node-cluster.js';
import { MIB } from '../support/orchestrator.js';
import { seededRandom } from '../support/random.js';
import { refused } from '../support/refusal.js';
import { proveRemoteVolume } from '../support/remote-volume.js';
import { writeAt } from '../support/write-at.js';
import { isGuest, nightlyTest } from './guest.js';

const SIZE_MIB = 18;

let cluster: NodeCluster;
before(async () => {
  if (!isGuest || !isNightly) return;
  execFileSync('modprobe', ['-a', 'veth', 'bridge']);
  const env = { BLOCKDELTA_SCAN_THREADS: '1', BLOCKDELTA_DEVICE_THREADS: '2' };
  cluster = await NodeCluster.start('remote', { pools: ['thin', 'xfs'], env });
});
after(() => cluster?.dispose());

nightlyTest('a volume of a thin pool is restored in a reflink pool of another node', () =>
  proveRemoteVolume(cluster, 1, 2, SIZE_MIB),
);

nightlyTest('a volume of a reflink pool is restored in a thin pool of another node', () =>
  proveRemoteVolume(cluster, 2, 1, SIZE_MIB),
);

/** Starts a node without the disk of its pool, until the returned function is called. */
async function losePool(node: number): Promise<() => Promise<void>> {
  const [pools, path] = [cluster.poolsOf(node), cluster.poolPath(node)];
  await cluster.plugin(node).stop();
  execFileSync('mount', ['-t', 'tmpfs', 'none', path]);
  // A plugin of which no pool works does not start.
  const other = `other=thin:${cluster.place.path(`other-${node}`)}`;
  await cluster.startPlugin(node, { BLOCKDELTA_POOLS: `${pools},${other}` });
  return async () => {
    await cluster.plugin(node).stop();
    execFileSync('umount', [path]);
    await cluster.startPlugin(node);
  };
}

/** A volume comes back from its copy when its node has lost its pool, and when its node is retired. */
async function proveRecovery(t: TestContext, owner: number, holder: number): Promise<void> {
  const label = `copied from ${owner} to ${holder}`;
  const random = seededRandom(label);
  const [a, b] = [cluster.orchestrator(owner), cluster.orchestrator(holder)];
  const volume = await cluster.create(owner, label, { sizeBytes: 8 * MIB });
  writeAt(await a.bringUp(volume), MIB, random.bytes(2 * MIB));
  const first = await untilCopied(cluster, volume, `${label}, first`);
  writeAt(volume.targetPath, 2 * MIB, random.bytes(2 * MIB));
  writeAt(volume.targetPath, MIB, Buffer.alloc(65_536));
  const content = readFileSync(volume.targetPath);
  const second = await untilCopied(cluster, volume, `${label}, second`);
  writeAt(volume.targetPath, 0, random.bytes(MIB));
  await a.takeDown(volume);
  const restored = () => restoreCopy(cluster, [owner, holder], second, content);

  const find = await losePool(owner);
  await b.remove(await restored());
  await find();

  await cluster.plugin(owner).kill();
  await cluster.retire(owner);
  const recovered = await restored();
  const command = ['supersede', volume.id, recovered.id, '--endpoint', cluster.router.endpoint];
  const { code, stderr } = await runCommand(t, command);
  assert.equal(code, 0, stderr);

  // As after a boot.
  rmSync(cluster.place.path(cluster.nodeId(owner), 'staging-cleared'));
  await cluster.startPlugin(owner);
  cluster.list({});
  await refused(
    untilReachable(() => a.stage(volume)),
    'FAILED_PRECONDITION',
    /superseded/,
  );
  assert.ok(readFileSync(recovered.targetPath).equals(content));
  for (const id of [first, second]) await untilReachable(() => a.deleteSnapshot(id));
  await eventually('no copy is left', async () => {
    const kept = await cluster.command(t, holder, 'replicas');
    return [first, second].every((id) => !kept.includes(id));
  });
  await a.delete(volume);
  await b.remove(recovered);
}

nightlyTest('a volume of a thin pool comes back from its copy in a reflink pool', (t) => proveRecovery(t, 1, 2));

nightlyTest('a volume of a reflink pool comes back from its copy in a thin pool', (t) => proveRecovery(t, 2, 1));
