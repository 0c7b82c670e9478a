/** The suites of `blockdelta bench`, in the order in which they run. Each suite is loaded only when it is used. */
import type { Suite } from '../suite.js';

export type Suites = Readonly<Record<string, () => Promise<Suite>>>;

export const SUITES: Suites = {
  driver: async () => (await import('./driver.js')).suite,
  stream: async () => (await import('./stream.js')).suite,
  lifecycle: async () => (await import('./lifecycle.js')).suite,
};
