/** Faults at the steps of calls that make, change and remove volumes. */
import { isNightly } from '../support/nightly.js';
import { faultTests } from './fault-tests.js';
import {
  CONTROLLER_PUBLISH,
  CONTROLLER_UNPUBLISH,
  CREATE_WITH_GROWTH,
  cloneVolume,
  createVolume,
  deleteVolume,
  expandVolume,
  modifyVolume,
  restoreVolume,
} from './operations.js';

faultTests('faults-volumes', {
  isWhole: isNightly,
  residents: ['block', 'ext4', 'xfs'],
  operations: [
    createVolume('block'),
    createVolume('xfs'),
    restoreVolume('block'),
    restoreVolume('xfs'),
    cloneVolume('block'),
    cloneVolume('ext4'),
    cloneVolume('xfs'),
    deleteVolume('block'),
    expandVolume('block'),
    expandVolume('ext4'),
    expandVolume('xfs'),
    modifyVolume('block'),
    CONTROLLER_PUBLISH,
    CONTROLLER_UNPUBLISH,
  ],
});

faultTests('faults-growth', {
  isWhole: isNightly,
  pools: ['embedded'],
  env: { BLOCKDELTA_RESERVE_PERCENT: '0', BLOCKDELTA_EMBEDDED_POOL_SIZE: '16Gi' },
  operations: [CREATE_WITH_GROWTH],
});
