/** Steps that are held until everybody has given up, while others come and go: the process lives, and goes on. */
import { isNightly } from '../support/nightly.js';
import { type FaultTests, faultTests } from './fault-tests.js';
import { type Choice, one, onePerKind } from './faults.js';
import { CREATE_WITH_GROWTH, createSnapshot, FIRST_START, START } from './operations.js';
import { settleInPieces } from './pieces.js';
import { onePerCall, StallTally, stalled } from './stalls.js';
import { callOf } from './steps.js';
import { LISTS, NODE, SNAPSHOTS, STARTS, startOften, VOLUMES } from './table.js';

/** All of them in a nightly run, else each kind of call once, and one of each operation. */
const ONE_PER_CALL = isNightly ? onePerCall : onePerKind(callOf, one);

function stallTests(
  label: string,
  { operations, env, failures = ONE_PER_CALL, ...tests }: FaultTests & { failures?: Choice },
): void {
  const tally = new StallTally();
  faultTests(`stalls-${label}`, {
    ...tests,
    tally,
    title: `D17: stalled calls of ${label}`,
    feat: 'is held for longer than anybody waits',
    selection: { kills: () => [], failures },
    operations: operations.map((operation) => stalled(operation, tally)),
    env: { ...env, BLOCKDELTA_METRICS_ADDRESS: '127.0.0.1:0' },
  });
}

stallTests('volumes', { operations: VOLUMES, residents: ['block', 'ext4', 'xfs'] });
stallTests('snapshots', {
  operations: SNAPSHOTS,
  residents: ['block', 'ext4', 'xfs', 'btrfs'],
  pools: ['xfs', 'btrfs'],
});
stallTests('node', { operations: NODE, pools: ['xfs'], env: { BLOCKDELTA_LEGACY_CSI: '0.3,0.1' } });
stallTests('lists', {
  operations: LISTS,
  env: { BLOCKDELTA_CHANGE_LISTS: 'on', BLOCKDELTA_RETAINED_BASES_COUNT: '4' },
});

if (isNightly) {
  stallTests('starts', { operations: STARTS, pools: ['xfs'], settle: startOften });
  stallTests('first starts', { operations: [FIRST_START], pools: ['embedded'] });
  stallTests('growth', {
    operations: [CREATE_WITH_GROWTH],
    pools: ['embedded'],
    env: { BLOCKDELTA_RESERVE_PERCENT: '0', BLOCKDELTA_EMBEDDED_POOL_SIZE: '16Gi' },
  });
  stallTests('pieces', { operations: [createSnapshot('xfs')], pools: ['xfs', 'btrfs'], settle: settleInPieces });
} else {
  // The first thing that a start waits for, while its socket is served.
  const mainStep = 'open <state>/catalogue.sqlite-lock #1';
  stallTests('starts', { operations: [{ ...START, mainStep }], pools: ['xfs'], failures: one });
}
