/** What a plugin's log says about its start. */
import { eventually } from './eventually.js';

export interface StartReport {
  finished: readonly string[];
  undone: readonly string[];
  differences: readonly string[];
}

/** The log's lines that are JSON objects. */
export function logLines(log: string): Record<string, unknown>[] {
  return log.split('\n').flatMap((line) => {
    try {
      const value: unknown = JSON.parse(line);
      return typeof value === 'object' && value !== null ? [value as Record<string, unknown>] : [];
    } catch {
      return [];
    }
  });
}

/** The report of the last comparison of the catalogue with the pools. */
export function startReport(log: string): StartReport {
  const line = logLines(log).findLast((found) => Array.isArray(found['differences']));
  if (line === undefined) throw new Error(`the log holds no report of a start:\n${log}`);
  return line as unknown as StartReport;
}

/** What follows when a plugin with one pool and a whole catalogue is ready, done or failed. */
const LAST_STEPS = [/"msg":"(reviewed|could not review) the pool"/, /"msg":"(backed|could not back) up the catalogue"/];

/** Resolves when such a start is complete, or cannot be any more. */
export async function startCompleted(log: () => string, isOver: () => boolean = () => false): Promise<void> {
  await eventually('the start is complete', () => isOver() || LAST_STEPS.every((step) => step.test(log())));
}
