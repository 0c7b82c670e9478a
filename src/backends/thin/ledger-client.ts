/**
 * The ledger for the event loop: each call goes to the thread that owns the database.
 */
import { openDatabase } from '../../database/database-thread.js';
import type { Ledger, OpenLedger } from './ledger.js';

/** All of them: the compiler refuses a name too few. */
const METHODS = {
  makePool: true,
  pool: true,
  setPoolState: true,
  setLabelledBytes: true,
  setHoldsMetadataSnapshot: true,
  recordStart: true,
  recordStop: true,
  devices: true,
  device: true,
  upcomingIds: true,
  skipDeviceIds: true,
  growVolume: true,
  setOpen: true,
  begin: true,
  openTransaction: true,
  apply: true,
  undo: true,
  markUsed: true,
  isUsed: true,
  unmarkUsed: true,
  sweepMarks: true,
  keptBases: true,
  keptBase: true,
  insertKeptBase: true,
  loseKeptBase: true,
  loseAllKeptBases: true,
  removeKeptBase: true,
} satisfies Record<keyof Ledger, true>;

/** Opens the ledger's file, or makes it. */
export function openLedger(file: string): Promise<OpenLedger> {
  const worker = new URL('./ledger-worker.js', import.meta.url);
  return openDatabase<Ledger>(worker, { file }, METHODS, 'keptBases');
}
