/** Kills at the steps of starts: the first one, one that finds nothing to do, and those after interrupted calls. */
import { isNightly } from '../support/nightly.js';
import { faultTests } from './fault-tests.js';
import {
  createIdleSnapshot,
  createVolume,
  deleteVolume,
  FIRST_START,
  START,
  startAfter,
} from './operations.js';
import type { Scene } from './scene.js';

/** From the fourth start on, one backup of the catalogue goes for each that is made. */
async function startOften(scene: Scene): Promise<void> {
  for (let starts = 1; starts < 4; starts += 1) {
    await scene.stop();
    await scene.start();
  }
}

faultTests('faults-start', {
  isWhole: isNightly,
  // A start takes the same steps on btrfs, and finishes what was interrupted alike in an embedded pool.
  pools: ['xfs'],
  settle: startOften,
  operations: [
    START,
    startAfter(createVolume('block'), 'rename <pool>/volumes/<vol>.tmp <pool>/volumes/<vol> #1'),
    startAfter(createIdleSnapshot('block'), 'fsync <pool>/snapshots/<snap>.tmp #1'),
    startAfter(deleteVolume('block'), 'unlink <pool>/volumes/<vol> #1'),
  ],
});

faultTests('faults-first-start', {
  isWhole: isNightly,
  pools: ['embedded'],
  settle: startOften,
  operations: isNightly ? [START, FIRST_START] : [FIRST_START],
});
