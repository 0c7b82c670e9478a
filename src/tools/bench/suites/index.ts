/** The suites of `blockdelta bench`, in the order in which they run. Each is loaded on use only. */
import type { Suite } from '../suite.js';

export const SUITES: Readonly<Record<string, () => Promise<Suite>>> = {
  stream: async () => (await import('./stream.js')).suite,
  lifecycle: async () => (await import('./lifecycle.js')).suite,
  io: async () => (await import('./io.js')).suite,
  stall: async () => (await import('./stall.js')).suite,
  reflink: async () => (await import('./reflink.js')).suite,
  thin: async () => (await import('./thin.js')).suite,
  backup: async () => (await import('./backup.js')).suite,
  driver: async () => (await import('./driver.js')).suite,
  hostile: async () => (await import('./hostile.js')).suite,
};
