/** What a plugin's log says about its start. */

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
