/** Faults at the steps of calls that bring volumes to their users and take them away. */
import { isNightly } from '../support/nightly.js';
import { faultTests } from './fault-tests.js';
import {
  nodeExpandVolume,
  publishVolume,
  stageCopy,
  stageVolume,
  unpublishVolume,
  unstageVolume,
} from './operations.js';
import type { VolumeKind } from './scene.js';

const KINDS: readonly VolumeKind[] = ['block', 'ext4', 'xfs', 'btrfs'];

faultTests('faults-node', {
  isWhole: isNightly,
  residents: [],
  operations: [
    ...KINDS.map(stageVolume),
    ...(['ext4', 'xfs', 'btrfs'] as const).map(stageCopy),
    ...KINDS.map(publishVolume),
    ...KINDS.map(unpublishVolume),
    ...KINDS.map(unstageVolume),
    // ext4 is grown at its next stage, where the capability to grow it mounted is missing.
    ...(['block', 'xfs', 'btrfs'] as const).map(nodeExpandVolume),
  ],
});
