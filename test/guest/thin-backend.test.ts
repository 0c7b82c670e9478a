/** The whole backend contract on real thin pools, with discards passed down. */
import { describeBackend } from '../backend/backend-contract.js';
import { ThinHarness } from '../backend/thin-harness.js';
import { guestSkip } from './guest.js';

for (const [kind, label] of [
  ['embedded', 'a thin pool on two files of its own'],
  ['given', 'a thin pool on two devices'],
] as const) {
  describeBackend(label, () => ThinHarness.make(kind), {
    skip: guestSkip,
    attaches: true,
    keepsBases: true,
  });
}
