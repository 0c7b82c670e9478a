/** Retained bases of a catalogue with limits that tests do not reach by accident, and their log. */
import { createLogger } from '../../src/base/logger.js';
import type { AsyncCatalogue } from '../../src/catalogue/catalogue-client.js';
import { OperationLocks } from '../../src/volumes/operation-locks.js';
import { RetainedBases } from '../../src/volumes/retained-bases.js';
import type { RetainedBaseLimits } from '../../src/volumes/retention.js';

export type LogLine = Record<string, unknown>;

export function testRetainedBases(
  catalogue: AsyncCatalogue,
  { locks, ...limits }: Partial<RetainedBaseLimits> & { locks?: OperationLocks } = {},
): { retainedBases: RetainedBases; log: LogLine[] } {
  const log: LogLine[] = [];
  const stream = { write: (line: string) => void log.push(JSON.parse(line) as LogLine) };
  const retainedBases = new RetainedBases({
    catalogue,
    locks: locks ?? new OperationLocks(),
    limits: { perVolume: 16, ageMs: 3_600_000, poolBytes: 1n << 30n, ...limits },
    logger: createLogger('info', stream),
  });
  return { retainedBases, log };
}
