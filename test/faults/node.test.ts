/** Faults at the steps of calls that bring volumes to their users and take them away. */
import { isNightly } from '../support/nightly.js';
import { faultTests } from './fault-tests.js';
import { legacyPublish, legacyUnpublish } from './legacy.js';
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
  env: { BLOCKDELTA_LEGACY_CSI: '0.3,0.1' },
  operations: [
    ...KINDS.map(stageVolume),
    ...(['ext4', 'xfs', 'btrfs'] as const).map(stageCopy),
    ...KINDS.map(publishVolume),
    ...KINDS.map(unpublishVolume),
    ...KINDS.map(unstageVolume),
    // ext4 is grown at its next stage, where the capability to grow it mounted is missing.
    ...(['block', 'xfs', 'btrfs'] as const).map(nodeExpandVolume),
    ...(['block', 'ext4'] as const).flatMap((kind) => [
      legacyPublish('0.1', kind),
      legacyUnpublish('0.1', kind),
    ]),
    legacyPublish('0.3', 'block'),
    legacyUnpublish('0.3', 'block'),
  ],
});
