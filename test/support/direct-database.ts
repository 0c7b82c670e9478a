/**
 * Databases opened on the test's own thread, so that a test calls them synchronously. The plugin opens
 * them on threads (openCatalogue, openLedger).
 */

import type { AsyncLedger, OpenLedger } from '../../src/driver/backends/thin/ledger/ledger-client.js';
import { type Ledger, ledgerCalls, ledgerDefinition } from '../../src/driver/backends/thin/ledger/sqlite-ledger.js';
import { type Catalogue, catalogueCalls, catalogueDefinition } from '../../src/driver/catalogue/sqlite-catalogue.js';
import type { DatabaseCall } from '../../src/driver/database/calls.js';
import type { SqliteConnection } from '../../src/driver/database/connection.js';
import type { DatabaseDefinition } from '../../src/driver/database/definition.js';
import { SoundDatabase } from '../../src/driver/database/sound-database.js';

export type DirectCatalogue = Catalogue & { close(): void };

export const openCatalogueHere = (file: string): DirectCatalogue => openHere(catalogueDefinition(file), catalogueCalls);

export const openLedgerHere = (file: string): Ledger & { close(): void } =>
  openHere(ledgerDefinition(file), ledgerCalls);

/** For a backend, which takes a thread of its own otherwise: on an emulated processor that takes a second to start. */
export async function openLedgerInline(file: string): Promise<OpenLedger> {
  const { close, ...calls } = openLedgerHere(file);
  const asynchronous = Object.entries(calls).map(([name, call]) => {
    const ask = call as (...args: unknown[]) => unknown;
    return [name, async (...args: unknown[]) => ask(...args)];
  });
  return { ...(Object.fromEntries(asynchronous) as AsyncLedger), close: async () => close() };
}

function openHere<T extends object>(
  definition: DatabaseDefinition,
  callsOf: (database: SqliteConnection) => T,
): T & { close(): void } {
  const database = SoundDatabase.open(definition);
  const calls = Object.entries(callsOf(database.connection)).map(([name, call]) => {
    const { kind } = call as DatabaseCall;
    const run = call as unknown as (...args: unknown[]) => unknown;
    if (kind === 'reads') return [name, run];
    return [name, (...args: unknown[]) => database.change(() => run(...args), failing)];
  });
  return { ...(Object.fromEntries(calls) as T), close: () => database.close() };
}

function failing(thrown: unknown): never {
  throw thrown;
}
