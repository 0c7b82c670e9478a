/** The suite catches every defect of fake/defects-requests.ts, by the checks named there. */
import { REQUEST_DEFECTS } from './fake/defects-requests.js';
import { proveDefects, proveFailsOnce, proveSkipped } from './fake/prove.js';
import { refusal } from './fake/refusal.js';

proveDefects('defects-requests', REQUEST_DEFECTS);

const REFUSES_EVERY_LIST = {
  name: 'refuses-every-list',
  does: 'refuses every list, as some do for volumes with a file system',
  fault: {
    metadata: () => ({
      blocks: () => {
        throw refusal('INVALID_ARGUMENT', 'not a raw block volume');
      },
    }),
  },
};

proveSkipped(
  'refused-requests',
  REFUSES_EVERY_LIST,
  [
    'metadata.max-results-negative',
    'metadata.id-missing',
    'metadata.other-volume',
    'metadata.reversed',
    'metadata.same',
  ],
  { detail: /^the driver refuses lists of block volumes that are asked for correctly: / },
);

proveFailsOnce('refused-lists', REFUSES_EVERY_LIST, ['metadata.*', 'delta.*', 'allocated.*'], {
  'metadata.order':
    /^the driver refuses lists of block volumes that are asked for correctly: GetMetadataAllocated: INVALID_ARGUMENT \(not a raw/,
  'delta.content':
    /^the driver refuses lists of block volumes that are asked for correctly: GetMetadataDelta: INVALID_ARGUMENT \(not a raw/,
});
