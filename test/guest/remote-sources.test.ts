/** Volumes made on one node from snapshots of another, where one of the two has a thin pool, in a nightly run. */
import { execFileSync } from 'node:child_process';
import { after, before } from 'node:test';
import { isNightly } from '../support/nightly.js';
import { NodeCluster } from '../support/node-cluster.js';
import { proveRemoteVolume } from '../support/remote-volume.js';
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
