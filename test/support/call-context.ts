/** The context of a call that did not come over a socket. */
import type { CallContext } from '../../src/base/csi/service.js';

/** Nobody cancels, there is no deadline, and notes are dropped, unless `fields` says otherwise. */
export const callContext = (fields: Partial<CallContext> = {}): CallContext => ({
  note: () => undefined,
  signal: new AbortController().signal,
  deadline: Number.POSITIVE_INFINITY,
  peer: {},
  encodedRequest: Buffer.alloc(0),
  ...fields,
});
