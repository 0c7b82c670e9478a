/** The suite catches every defect of fake/defects-requests.ts, by the checks named there. */
import { REQUEST_DEFECTS } from './fake/defects-requests.js';
import { proveDefects, proveSkipped } from './fake/prove.js';
import { refusal } from './fake/refusal.js';

proveDefects('defects-requests', REQUEST_DEFECTS);

proveSkipped(
  'refuses-every-list',
  {
    name: 'refuses-every-list',
    does: 'refuses every list, as some do for volumes with a file system',
    fault: {
      metadata: () => ({
        blocks: () => {
          throw refusal('INVALID_ARGUMENT', 'not a raw block volume');
        },
      }),
    },
  },
  ['metadata.max-results-negative', 'metadata.id-missing', 'metadata.reversed'],
);
