/** Every suite of `scripts/bench`: those of `blockdelta bench`, and those of this project's own layers beside peers. */
import { SUITES, type Suites } from '../../../src/tools/bench/suites/index.js';

export const ALL_SUITES: Suites = {
  stream: async () => (await import('./stream.js')).suite,
  lifecycle: async () => (await import('./lifecycle.js')).suite,
  io: async () => (await import('./io.js')).suite,
  stall: async () => (await import('./stall.js')).suite,
  reflink: async () => (await import('./reflink.js')).suite,
  thin: async () => (await import('./thin.js')).suite,
  backup: async () => (await import('./backup.js')).suite,
  transfer: async () => (await import('./transfer.js')).suite,
  driver: SUITES['driver'] as Suites[string],
  hostile: async () => (await import('./hostile.js')).suite,
};
