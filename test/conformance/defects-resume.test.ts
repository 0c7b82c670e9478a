/** The suite catches every defect of fake/defects-resume.ts, by the checks named there. */
import { endNow, RESUME_DEFECTS } from './fake/defects-resume.js';
import { wire } from './fake/metadata.js';
import { proveDefects, proveSkipped } from './fake/prove.js';

proveDefects('defects-resume', RESUME_DEFECTS);

proveSkipped(
  'eager',
  {
    name: 'eager',
    does: 'hands over each list at once, before the client has read it',
    fault: {
      metadata: () => ({
        messages: (entries, { target }) => [
          {
            block_metadata_type: 'VARIABLE_LENGTH',
            volume_capacity_bytes: target.sizeBytes,
            block_metadata: wire(entries),
          },
        ],
        send: async (call, messages) => {
          for (const message of messages) call.write(message);
          endNow(call);
        },
      }),
    },
  },
  ['metadata.deadline'],
  {
    detail: /^the driver had handed over each list before its deadline$/,
    notes: [
      'GetMetadataAllocated sent the whole list before its deadline',
      'GetMetadataDelta sent the whole list before its deadline',
    ],
  },
);
