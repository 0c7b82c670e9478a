/** Faults at the steps of calls that make, change and remove volumes. */
import { faultTests } from './fault-tests.js';
import { CREATE_WITH_GROWTH } from './operations.js';
import { VOLUMES } from './table.js';

faultTests('faults-volumes', { residents: ['block', 'ext4', 'xfs'], operations: VOLUMES });

faultTests('faults-growth', {
  pools: ['embedded'],
  env: { BLOCKDELTA_RESERVE_PERCENT: '0', BLOCKDELTA_EMBEDDED_POOL_SIZE: '16Gi' },
  operations: [CREATE_WITH_GROWTH],
});
