/** Commands that die before each of their steps, are told to end there, and lose their programs and the plugin. */
import { isNightly } from '../support/nightly.js';
import {
  COLLECT,
  COMPACT,
  CONFIRM,
  FULL_BACKUP,
  INCREMENTAL_BACKUP,
  MANY_BACKUPS,
  makeBackups,
  NBD,
  PRUNE,
  PRUNE_COMPACT,
  REMOTE_BACKUP,
  REMOTE_COMPACT,
  REMOTE_PRUNE,
  RESTORE_IN_PLACE,
  RESTORE_TO_FILE,
  RESTORE_TO_VOLUME,
} from './commands.js';
import { faultTests } from './fault-tests.js';
import { all, type Choice, one, onePerKind } from './faults.js';
import { callOf, kindOf } from './steps.js';

/** Of each program in all operations the first start, and the one that copies. */
const onePerStart = onePerKind((step) => (/\/qemu-img #2$/.test(step) ? step : step.replace(/ #\d+$/, '')));
const firstStarts: Choice = (operation, steps) =>
  onePerStart(
    operation,
    steps.filter((step) => callOf(step) === 'exec'),
  );
/** Each start of a program is one of its own. */
const kindOfFailure = (step: string): string => (callOf(step) === 'exec' ? step : kindOf(step));

faultTests('faults-commands', {
  residents: ['block'],
  settle: makeBackups,
  selection: isNightly
    ? { kills: all, failures: (...operation) => onePerKind(kindOfFailure)(...operation) }
    : // A call is one kind of step here, whatever the file.
      { kills: onePerKind(callOf, one), failures: firstStarts },
  pools: ['xfs'],
  operations: [
    // The first one: what may happen while qemu-img copies happens here.
    INCREMENTAL_BACKUP,
    PRUNE,
    RESTORE_TO_FILE,
    RESTORE_IN_PLACE,
    NBD,
    COLLECT,
    CONFIRM,
    ...(isNightly
      ? [
          COMPACT,
          PRUNE_COMPACT,
          FULL_BACKUP,
          RESTORE_TO_VOLUME,
          MANY_BACKUPS,
          REMOTE_BACKUP,
          REMOTE_PRUNE,
          REMOTE_COMPACT,
        ]
      : []),
  ],
});
