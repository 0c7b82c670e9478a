/** A thin pool's ledger, read from a copy: for commands that inspect a node, even while the plugin runs. */
import { readCopy } from '../../../database/copy.js';
import type { DeviceRecord, PoolRecord } from './ledger.js';
import { ledgerCalls, ledgerDefinition } from './sqlite-ledger.js';

export interface LedgerContents {
  pool: PoolRecord;
  devices: DeviceRecord[];
}

/** NOT_FOUND if there is no such file, FAILED_PRECONDITION if it cannot be read or is damaged. */
export function ledgerContents(file: string): Promise<LedgerContents> {
  return readCopy(ledgerDefinition, file, (database) => {
    const calls = ledgerCalls(database);
    return { pool: calls.pool(), devices: calls.devices() };
  });
}
