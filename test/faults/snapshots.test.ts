/**
 * Faults at the steps of calls that take and remove snapshots; the guardian, which freezes the file systems, dies
 * too. After each of them, and before the plugin starts again, all file systems are written to.
 */
import { isNightly } from '../support/nightly.js';
import { faultTests } from './fault-tests.js';
import {
  CREATE_GROUP,
  createIdleSnapshot,
  createSnapshot,
  DELETE_GROUP,
  DELETE_SNAPSHOT,
} from './operations.js';

faultTests('faults-snapshots', {
  isWhole: isNightly,
  title: 'H19: no file system stays frozen, and no snapshot is lost,',
  residents: ['block', 'ext4', 'xfs', 'btrfs'],
  operations: [
    createIdleSnapshot('block'),
    createSnapshot('block'),
    createSnapshot('ext4'),
    createSnapshot('xfs'),
    createSnapshot('btrfs'),
    DELETE_SNAPSHOT,
    CREATE_GROUP,
    DELETE_GROUP,
  ],
});
