/**
 * Which objects exist after a crash: those that were promised, with everything that the interrupted call makes or
 * removes done, or none of it. Knows ids only.
 */
import assert from 'node:assert/strict';
import { isDeepStrictEqual } from 'node:util';

/** What a call makes or removes, never both, that was not answered. */
export interface Unanswered {
  /** The ids, or their number where only the answer tells the ids. */
  makes?: number | readonly string[];
  removes?: readonly string[];
}

/** Fails unless the found ids are those of before the call, or those of after it. */
export function assertPromised(
  found: readonly string[],
  promised: readonly string[],
  { makes = 0, removes = [] }: Unanswered = {},
): void {
  const missing = promised.filter((id) => !found.includes(id));
  const lost = missing.filter((id) => !removes.includes(id));
  assert.deepEqual(lost, [], 'objects are lost');
  const isHalfGone = missing.length > 0 && missing.length < removes.length;
  assert.ok(!isHalfGone, `only some are gone: ${missing} of ${removes}`);
  const made = found.filter((id) => !promised.includes(id)).sort();
  const isWhole = typeof makes === 'number' ? made.length === makes : isDeepStrictEqual(made, [...makes].sort());
  assert.ok(made.length === 0 || isWhole, `made twice, in part, or undead: ${made}`);
}
