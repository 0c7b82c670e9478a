/** Lists that are refused, and how a list that is served begins and ends: the exact status and message of each. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { SnapshotMember } from '../../src/backends/backend.js';
import { CsiError, type StatusName } from '../../src/base/errors.js';
import type { Message } from '../support/csi-client.js';
import { runMemoryPlugin } from '../support/memory-plugin.js';
import type { HeldVolume } from '../support/orchestrator.js';
import { refused } from '../support/refusal.js';

const BLOCK = 4096;
const running = runMemoryPlugin('metadata', {
  prepare: async (running) => {
    const { orchestrator } = running;
    volume = await orchestrator.create('listed');
    base = await orchestrator.snapshot(volume, 'base');
    running.backend().write(volume.id, BLOCK, Buffer.alloc(2 * BLOCK, 1));
    target = await orchestrator.snapshot(volume, 'target');
    stranger = await orchestrator.snapshot(await orchestrator.create('other'), 'stranger');
  },
});
let volume: HeldVolume;
let base = '';
let target = '';
let stranger = '';

const LISTS = ['GetMetadataAllocated', 'GetMetadataDelta'] as const;
const read = (rpc: (typeof LISTS)[number], fields: Message = {}) =>
  running.client.metadata(rpc, {
    ...(rpc === 'GetMetadataDelta'
      ? { base_snapshot_id: base, target_snapshot_id: target }
      : { snapshot_id: target }),
    ...fields,
  });

const REFUSED: Readonly<Record<string, readonly [StatusName, Message]>> = {
  'SM3: a negative starting_offset': ['OUT_OF_RANGE', { starting_offset: '-1' }],
  'SM3: the least starting_offset': ['OUT_OF_RANGE', { starting_offset: String(-(2n ** 63n)) }],
  'SM4: a starting_offset beyond the end': ['OUT_OF_RANGE', { starting_offset: 8388609 }],
  'SM4: the largest starting_offset': ['OUT_OF_RANGE', { starting_offset: String(2n ** 63n - 1n) }],
  'SM6: a negative max_results': ['INVALID_ARGUMENT', { max_results: -1 }],
  'SM6: the least max_results': ['INVALID_ARGUMENT', { max_results: -(2 ** 31) }],
};
for (const rpc of LISTS) {
  for (const [title, [code, fields]] of Object.entries(REFUSED)) {
    test(`${title} of ${rpc} is ${code}, and the field is named`, async () => {
      await refused(read(rpc, fields), code, new RegExp(Object.keys(fields)[0] ?? ''));
    });
  }

  test(`SM5, SM25: ${rpc} from the end of the volume is one message with the capacity and no entries`, async () => {
    const answer = await read(rpc, { starting_offset: volume.sizeBytes });
    const capacity = BigInt(volume.sizeBytes);
    assert.deepEqual(answer, { type: 'VARIABLE_LENGTH', capacity, ranges: [], messages: 1 });
  });
}

test('SM25: lists without entries are one message with type and capacity', async () => {
  const same = await running.orchestrator.snapshot(volume, 'same');
  const { client } = running;
  for (const answer of [await client.allocated(base), await client.delta(target, same)]) {
    const capacity = BigInt(volume.sizeBytes);
    assert.deepEqual(answer, { type: 'VARIABLE_LENGTH', capacity, ranges: [], messages: 1 });
  }
  await running.orchestrator.deleteSnapshot(same);
});

test('SM10, SM11: snapshots of two volumes, an older target and a single snapshot have no delta', async () => {
  const { client } = running;
  await refused(client.delta(base, stranger), 'INVALID_ARGUMENT', /two snapshots of one volume/);
  await refused(client.delta(target, base), 'INVALID_ARGUMENT', /older snapshot as the base/);
  await refused(client.delta(base, base), 'INVALID_ARGUMENT');
});

test('SM12: a snapshot whose creation has not completed is FAILED_PRECONDITION', async () => {
  let half = '';
  const died = (): never => {
    throw CsiError.internal('the disk is away');
  };
  // Its row stays, because nothing can be rolled back either.
  Object.assign(running.backend(), {
    createSnapshots: async ([member]: SnapshotMember[]) => {
      half = member?.snapshotId ?? '';
      died();
    },
    deleteSnapshot: async () => died(),
    abandonSnapshots: async () => died(),
  });
  await refused(running.orchestrator.snapshot(volume, 'half'), 'INTERNAL');
  await refused(running.client.allocated(half), 'FAILED_PRECONDITION', /not ready/);
});
