/** Faults at the steps of change lists and retained bases. */
import { faultTests } from './fault-tests.js';
import { LISTS } from './table.js';

faultTests('faults-lists', {
  env: { BLOCKDELTA_CHANGE_LISTS: 'on', BLOCKDELTA_RETAINED_BASES_COUNT: '4' },
  operations: LISTS,
});
