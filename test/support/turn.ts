/** A turn of a client that never gives up, for tests that are not about turns. */
import type { Turn } from '../../src/base/fair-turns.js';

export const patientTurn = (): Turn => ({
  group: 'default',
  peer: {},
  signal: new AbortController().signal,
});
