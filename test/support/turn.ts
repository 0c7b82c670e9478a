/** A turn for a client that never times out, for tests that are not about turns. */
import type { Turn } from '../../src/base/fair-turns.js';

export const patientTurn = (): Turn => ({ group: 'default', peer: {}, signal: new AbortController().signal });
