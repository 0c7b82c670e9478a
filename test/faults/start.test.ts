/** Kills at the steps of starts: the first one, one that finds nothing to do, and those after interrupted calls. */
import { isNightly } from '../support/nightly.js';
import { faultTests } from './fault-tests.js';
import { FIRST_START, START } from './operations.js';
import { STARTS, startOften } from './table.js';

faultTests('faults-start', {
  // A start takes the same steps on btrfs, and finishes what was interrupted alike in an embedded pool.
  pools: ['xfs'],
  settle: startOften,
  operations: isNightly ? STARTS : STARTS.slice(0, 2),
});

faultTests('faults-first-start', {
  pools: ['embedded'],
  ...(isNightly ? { settle: startOften } : {}),
  operations: isNightly ? [START, FIRST_START] : [FIRST_START],
});
