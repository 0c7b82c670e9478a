/** Enumerates on a thread of its own: the test runner follows every promise of its thread, which takes longer than the rules. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parentPort, workerData } from 'node:worker_threads';
import { type Bounds, Enumeration } from './enumeration.js';

export interface EnumerationAnswer {
  said: string;
  /** The history that ended wrong, and how. */
  failure: string | null;
}

async function run(bounds: Bounds): Promise<EnumerationAnswer> {
  const directory = mkdtempSync(join(tmpdir(), 'lists-'));
  try {
    const { histories, worlds, kills, losses, meetings } = await new Enumeration(directory).run(bounds);
    const counts = `${histories} histories, ${kills} kills, ${losses} lost messages, ${meetings} meetings, ${worlds} worlds`;
    return { said: `${bounds.first.length} and ${bounds.length} operations: ${counts}`, failure: null };
  } finally {
    rmSync(directory, { recursive: true });
  }
}

/** With its causes: the message alone crosses to another thread. */
function whole(thrown: unknown): string {
  if (!(thrown instanceof Error)) return String(thrown);
  return thrown.cause === undefined ? thrown.message : `${thrown.message}: ${whole(thrown.cause)}`;
}

parentPort?.postMessage(
  await run(workerData as Bounds).catch((thrown: unknown): EnumerationAnswer => ({ said: '', failure: whole(thrown) })),
);
// Calls of nodes that were killed wait for ever.
process.exit();
