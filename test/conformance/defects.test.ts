/** The suite catches every defect, by the checks that its table names; the tables of streams and data have files of their own. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CHECKS } from '../../src/tools/conformance/all-checks.js';
import { isNightly } from '../support/nightly.js';
import { ALL_DEFECTS } from './fake/all-defects.js';
import { REQUEST_DEFECTS, SHAPE_DEFECTS } from './fake/defects-messages.js';
import { RPC_DEFECTS } from './fake/defects-rpcs.js';
import { listOf, proveDefects, proveFailsOnce, proveSkipped } from './fake/prove.js';
import { refusal } from './fake/refusal.js';

proveDefects(SHAPE_DEFECTS, REQUEST_DEFECTS, RPC_DEFECTS);

const REFUSES = 'refuses every list, as some do for volumes with a file system';
const REFUSES_EVERY_LIST = {
  metadata: () => ({
    blocks: () => {
      throw refusal('INVALID_ARGUMENT', 'not a raw block volume');
    },
  }),
};
const REFUSED = 'the driver refuses lists of block volumes that are asked for correctly: ';

proveSkipped(
  REFUSES,
  REFUSES_EVERY_LIST,
  ['max-results-negative', 'id-missing', 'other-volume', 'reversed', 'same'].map((check) => `metadata.${check}`),
  { detail: new RegExp(`^${REFUSED}`) },
);

const ALL_LISTS = ['metadata.*', 'delta.*', 'allocated.*'];
const SOME_LISTS = ['metadata.order', 'metadata.resume', 'delta.content', 'delta.chain'];

proveFailsOnce(REFUSES, REFUSES_EVERY_LIST, isNightly ? ALL_LISTS : SOME_LISTS, {
  'metadata.order': new RegExp(`^${REFUSED}GetMetadataAllocated: INVALID_ARGUMENT \\(not a raw`),
  'delta.content': new RegExp(`^${REFUSED}GetMetadataDelta: INVALID_ARGUMENT \\(not a raw`),
});

test('a broken driver covers every check except those of mounted volumes, and names no other', () => {
  const caught = new Set(listOf(...ALL_DEFECTS).flatMap(({ caughtBy }) => caughtBy));
  const ids = CHECKS.map(({ id }) => id);
  const unproved = ids.filter((id) => !caught.has(id));
  assert.deepEqual(unproved, ['delta.content-mount', 'allocated.content-mount']);
  for (const id of caught) assert.ok(ids.includes(id), id);
});
