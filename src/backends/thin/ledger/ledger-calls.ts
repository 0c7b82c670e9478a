/** What each call of the ledger does with space: what is let through when its directory is full. */
import type { CallKinds } from '../../../database/database-service.js';
import type { Ledger } from './ledger.js';

export const LEDGER_CALLS = {
  makePool: 'writes',
  pool: 'reads',
  setPoolState: 'writes',
  setLabelledBytes: 'writes',
  setHoldsMetadataSnapshot: 'frees',
  recordStart: 'writes',
  recordStop: 'frees',
  devices: 'reads',
  device: 'reads',
  upcomingIds: 'reads',
  skipDeviceIds: 'writes',
  growVolume: 'writes',
  setOpen: 'frees',
  begin: (creates) => ((creates as unknown[]).length > 0 ? 'takes' : 'frees'),
  openTransaction: 'reads',
  apply: 'frees',
  undo: 'frees',
  markInitialized: 'takes',
  isInitialized: 'reads',
  initializedVolumes: 'reads',
  unmarkInitialized: 'frees',
  sweepMarks: 'frees',
  retainedBases: 'reads',
  retainedBase: 'reads',
  insertRetainedBase: 'frees',
  invalidateRetainedBase: 'frees',
  invalidateAllRetainedBases: 'frees',
  removeRetainedBase: 'frees',
} satisfies CallKinds<Ledger>;
