/** The suite catches every defect of fake/defects-resume.ts, by the checks named there. */
import { endNow, RESUME_DEFECTS } from './fake/defects-resume.js';
import { wire } from './fake/metadata.js';
import { proveDefects, proveSkipped } from './fake/prove.js';

proveDefects(RESUME_DEFECTS);

/** Lists with a deadline that the eager driver has handed over in time, since it was asked last. */
let inTime = 0;
/** An allocated list, a delta, and a long list. */
const LISTS_WITH_DEADLINE = 3;

proveSkipped(
  'hands over each list at once, before the client has read it',
  {
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
        const remainingMs = Number(call.getDeadline()) - Date.now();
        if (!call.cancelled && remainingMs > 0 && Number.isFinite(remainingMs)) inTime += 1;
      },
    }),
  },
  ['metadata.deadline'],
  {
    detail: /^the driver had handed over each list before its deadline$/,
    isOwnWay: () => {
      const isInTime = inTime === LISTS_WITH_DEADLINE;
      inTime = 0;
      return isInTime;
    },
    notes: ['GetMetadataAllocated', 'GetMetadataDelta'].map((rpc) => `${rpc} sent the whole list before its deadline`),
  },
);
