/** Faults at the steps of calls that bring volumes to their users and take them away. */
import { faultTests } from './fault-tests.js';
import { NODE } from './table.js';

faultTests('faults-node', {
  // What these calls do to a pool, such as attaching a file, is the same on each kind.
  pools: ['xfs'],
  env: { BLOCKDELTA_LEGACY_CSI: '0.3,0.1' },
  operations: NODE,
});
