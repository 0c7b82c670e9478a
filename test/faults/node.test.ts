/** Faults at the steps of calls that bring volumes to their users and take them away. */
import type { VolumeKind } from '../support/contents.js';
import { isNightly } from '../support/nightly.js';
import { faultTests } from './fault-tests.js';
import { legacy } from './legacy.js';
import {
  nodeExpandVolume,
  publishVolume,
  stageCopy,
  stageVolume,
  unpublishVolume,
  unstageVolume,
} from './operations.js';

const KINDS: readonly VolumeKind[] = ['block', 'ext4', 'xfs', 'btrfs'];

faultTests('faults-node', {
  isWhole: isNightly,
  // What these calls do to a pool, such as attaching a file, is the same on each kind.
  pools: ['xfs'],
  env: { BLOCKDELTA_LEGACY_CSI: '0.3,0.1' },
  operations: [
    ...KINDS.map(stageVolume),
    ...(['ext4', 'xfs', 'btrfs'] as const).map(stageCopy),
    ...KINDS.map(publishVolume),
    ...KINDS.map(unpublishVolume),
    ...KINDS.map(unstageVolume),
    // ext4 is grown at its next stage, where the capability to grow it mounted is missing.
    ...(['block', 'xfs', 'btrfs'] as const).map(nodeExpandVolume),
    ...(['NodePublishVolume', 'NodeUnpublishVolume'] as const).flatMap((rpc) => [
      legacy('0.1', rpc, 'block'),
      legacy('0.1', rpc, 'ext4'),
      legacy('0.3', rpc, 'block'),
    ]),
  ],
});
