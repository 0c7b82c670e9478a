/** Commands that die before each of their steps. */
import { isNightly } from '../support/nightly.js';
import {
  FULL_BACKUP,
  INCREMENTAL_BACKUP,
  NBD,
  PRUNE,
  RESTORE_TO_FILE,
  RESTORE_TO_VOLUME,
} from './commands.js';
import { faultTests } from './fault-tests.js';

faultTests('faults-commands', {
  isWhole: isNightly,
  residents: ['block'],
  ofCommands: true,
  pools: ['xfs'],
  operations: [FULL_BACKUP, INCREMENTAL_BACKUP, RESTORE_TO_FILE, RESTORE_TO_VOLUME, PRUNE, NBD],
});
