/**
 * Pulls, replicas and clones of them in every history of a small world, with a kill at every change, the loss of every message,
 * and something else at every point of the first call: a complete replica is its snapshot, and a pull that nothing disturbs ends.
 * docs/engineering/transfers.md has the argument.
 */
import { test } from 'node:test';
import { isNightly } from '../../../support/nightly.js';
import { enumerateThere } from '../../../support/own-thread.js';
import type { Bounds } from './enumeration.js';

const WHOLE = ['grow', 'write 0', 'write 1', 'snapshot'];
/** The next pull has a base, and two pieces: one that frees a block and copies another, and one that only copies. */
const DELTA = [...WHOLE, 'pull s1', 'discard 0', 'write 1', 'write 2', 'snapshot'];
/** The catalogue that is restored does not know that the pool holds the snapshot, or that it holds only a part again. */
const UNKNOWN = ['write 0', 'write 1', 'snapshot', 'piece of s1', 'back up', 'pull s1'];
const PARTLY = ['write 0', 'write 1', 'snapshot', 'pull s1', 'back up', 'keep for eight days', 'piece of s1'];
const LACKING = ['write 0', 'snapshot', 'pull s1', 'back up', 'restore, and volumes are missing'];
const EXCHANGED = [...DELTA, 'piece of s2', 'exchange the source'];

const EXTENTS: readonly Bounds[] = isNightly
  ? [
      { first: [], length: 5, meetings: 0, met: null },
      { first: WHOLE, length: 3, meetings: 2, met: null },
      { first: DELTA, length: 2, meetings: 2, met: null },
      { first: UNKNOWN, length: 3, meetings: 1, met: null },
      { first: PARTLY, length: 3, meetings: 1, met: null },
      { first: LACKING, length: 3, meetings: 1, met: null },
      { first: EXCHANGED, length: 2, meetings: 1, met: null },
    ]
  : [
      { first: DELTA, length: 1, meetings: 1, met: ['pull', 'delete', 'end', 'keep'] },
      { first: UNKNOWN, length: 1, meetings: 0, met: null },
      { first: PARTLY, length: 1, meetings: 0, met: null },
      { first: LACKING, length: 1, meetings: 0, met: null },
      { first: EXCHANGED, length: 0, meetings: 0, met: null },
    ];

test('a complete replica is its snapshot after each history, and a pull that nothing disturbs ends', async (t) => {
  for (const said of await enumerateThere(import.meta.resolve('./enumeration.js'), EXTENTS)) t.diagnostic(said);
});
