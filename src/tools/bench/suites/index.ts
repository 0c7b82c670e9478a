/** The suites of `blockdelta bench`, in the order in which they run. Each is loaded on use only. */
import type { Suite } from '../suite.js';

export type Suites = Readonly<Record<string, () => Promise<Suite>>>;

export const SUITES: Suites = {
  driver: async () => (await import('./driver.js')).suite,
  stream: async () => (await import('./stream.js')).suite,
  lifecycle: async () => (await import('./lifecycle.js')).suite,
};
