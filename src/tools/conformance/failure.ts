/** The errors with which a check ends if it does not pass. Knows no RPC. */

/** The driver breaks the rule. */
export class ConformanceFailure extends Error {
  override readonly name = 'ConformanceFailure';
  constructor(
    /** What was called, such as "GetMetadataDelta with max_results 7". */
    readonly subject: string,
    readonly expected: string,
    readonly found: string,
    options?: ErrorOptions,
  ) {
    super(`${subject}: expected ${expected}, found ${found}`, options);
  }
}

/** The check does not apply to this driver. */
export class CheckSkipped extends Error {
  override readonly name = 'CheckSkipped';
}

/** Throws a ConformanceFailure unless the condition holds. Calls `found` only in that case. */
export function expect(condition: boolean, subject: string, expected: string, found: () => string): asserts condition {
  if (!condition) throw new ConformanceFailure(subject, expected, found());
}

/** Throws CheckSkipped if volumes of that size are too small for a check. */
export function expectRoom(sizeBytes: number, smallestBytes: number): void {
  if (sizeBytes >= smallestBytes) return;
  const needed = `at least ${smallestBytes}: choose a larger --volume-size`;
  throw new CheckSkipped(`volumes of ${sizeBytes} bytes are too small, this check needs ${needed}`);
}
