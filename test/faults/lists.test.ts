/** Faults at the steps of change lists and retained bases. */
import { isNightly } from '../support/nightly.js';
import { faultTests } from './fault-tests.js';
import { CHANGE_LIST, DELETE_VOLUME_WITH_BASES, deleteBase } from './operations.js';

faultTests('faults-lists', {
  isWhole: isNightly,
  env: { BLOCKDELTA_CHANGE_LISTS: 'on', BLOCKDELTA_RETAINED_BASES_COUNT: '4' },
  operations: [
    CHANGE_LIST,
    deleteBase(0),
    deleteBase(1),
    deleteBase(0, true),
    DELETE_VOLUME_WITH_BASES,
  ],
});
