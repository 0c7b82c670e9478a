/**
 * Faults at the steps of calls that take and remove snapshots; the guardian, which freezes the file systems, dies
 * too. After each of them, and before the plugin starts again, all file systems are written to.
 */
import { isNightly } from '../support/nightly.js';
import { faultTests } from './fault-tests.js';
import { type Choice, one, onePerKind } from './faults.js';
import { createSnapshot } from './operations.js';
import { settleInPieces } from './pieces.js';
import { SNAPSHOTS } from './table.js';

faultTests('faults-snapshots', {
  // An embedded pool is xfs in a file, which these calls do not grow.
  pools: ['xfs', 'btrfs'],
  title: 'H19: no file system stays frozen, and no snapshot is lost,',
  residents: ['block', 'ext4', 'xfs', 'btrfs'],
  operations: SNAPSHOTS,
});

const IN_PIECES = 'FICLONERANGE <pool>/snapshots/<snap>.tmp #2';
const onePerKindOfPieces = onePerKind();
const ofPieces: Choice = (operation, steps) =>
  onePerKindOfPieces(
    operation,
    steps.filter((step) => /^(?:FICLONERANGE|BTRFS_IOC_SNAP_CREATE)/.test(step)),
  );

for (const pool of isNightly ? (['xfs', 'btrfs'] as const) : (['xfs'] as const)) {
  faultTests(`faults-pieces-${pool}`, {
    title: 'a mounted volume in many pieces',
    pools: [pool],
    settle: settleInPieces,
    operations: [createSnapshot('xfs', IN_PIECES)],
    // The other kinds of steps fail above.
    ...(isNightly ? {} : { selection: { kills: one, failures: ofPieces } }),
  });
}
