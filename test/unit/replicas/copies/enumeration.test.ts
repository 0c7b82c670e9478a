/**
 * Snapshots with copies in every history of a small world, with every message lost or late, every process killed at every step,
 * and something else at every point of a call: docs/engineering/transfers.md says what holds.
 */
import { test } from 'node:test';
import { isNightly } from '../../../support/nightly.js';
import { enumerateThere } from '../../../support/own-thread.js';
import { seededRandom } from '../../../support/random.js';
import type { Bounds, Walks } from './enumeration.js';

/** A copy is promised, and its node goes before anybody knows; the next node promises none. */
const GIVEN_UP = ['take s0, lost ReportCopy at a', 'b goes', 'b stays away', 'round, lost KeepReplica at c', 'c goes'];
/** The first node is chosen again, and its first promise is still under way. */
const LATE = GIVEN_UP.with(0, 'take s0, late KeepReplica at b').concat('c stays away', 'b returns');
const PENDING = ['take s0, lost KeepReplica at b', 'back up'];
const RETIRED = ['take s0', 'a goes', 'retire'];
const TWO = ['take s0, lost ReportCopy at a', 'b is full', 'take s1'];

const bounds = (
  first: readonly string[],
  length: number,
  disturbed: number,
  meetings: number,
  snapshots = 1,
): Bounds => ({
  ...{ first, length, disturbed, meetings, snapshots },
});

const EXTENTS: readonly Bounds[] = isNightly
  ? [
      bounds([], 5, 1, 1),
      bounds(['take s0'], 4, 3, 1),
      bounds(GIVEN_UP, 3, 2, 1),
      bounds(LATE, 3, 3, 1),
      bounds(PENDING, 4, 2, 1),
      bounds(RETIRED, 4, 2, 1),
      bounds(TWO, 2, 2, 1, 2),
    ]
  : [
      bounds([], 2, 1, 1),
      bounds(['take s0'], 2, 1, 1),
      bounds([...GIVEN_UP, 'b returns'], 1, 1, 0),
      bounds([...LATE, 'round'], 1, 1, 0),
      bounds(PENDING, 1, 1, 0),
      bounds(RETIRED, 1, 1, 0),
      bounds(TWO, 1, 1, 0, 2),
    ];

const enumerate = (asked: readonly (Bounds | Walks)[]): Promise<readonly string[]> =>
  enumerateThere(import.meta.resolve('./enumeration.js'), asked);

test('no last copy goes but by a deletion, a ready snapshot has one, recovery finds it, and nothing is left at the end', async (t) => {
  for (const said of await enumerate(EXTENTS)) t.diagnostic(said);
});

test('the same holds in long histories of several snapshots', async (t) => {
  const { seed } = seededRandom('histories of copies');
  const walks = { seed, histories: isNightly ? 300 : 3, length: 100, snapshots: 4 };
  for (const said of await enumerate([walks])) t.diagnostic(said);
});
