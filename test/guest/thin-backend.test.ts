/**
 * The whole backend contract on a real thin pool, with discards passed down: on one that the plugin makes, and in a
 * nightly run on one of two devices, which the files about faults and space use as well.
 */
import { describeBackend } from '../backend/backend-contract.js';
import { ThinHarness } from '../backend/thin-harness.js';
import { isNightly } from '../support/nightly.js';
import { guestSkip } from './guest.js';

const [kind, label] = isNightly
  ? (['given', 'a thin pool on two devices'] as const)
  : (['embedded', 'a thin pool on two files of its own'] as const);
describeBackend(label, () => ThinHarness.make(kind), {
  skip: guestSkip,
  attaches: true,
  keepsBases: true,
});
