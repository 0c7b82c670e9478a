/** What a backup copies, beside drivers that give their lists, refuse them, or send wrong ones. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { StatusCode } from '../../../src/base/errors.js';
import { type ListRequest, readChangeList } from '../../../src/tools/backup/change-list.js';
import type { MetadataMessage, MetadataRequest } from '../../../src/tools/client/metadata-stream.js';
import { temporaryDirectory } from '../../support/temporary.js';

const MIB = 1n << 20n;
type Answer = readonly (readonly [offset: bigint, size: bigint])[] | number;

const path = join(temporaryDirectory(), 'ranges');

interface Driver {
  capacity?: bigint;
  allocated?: Answer;
  /** By the id of the base. */
  deltas?: Record<string, Answer>;
}

function refused(code: number): Error {
  return Object.assign(new Error(`status ${code}`), { code, details: `refused with ${code}` });
}

function request(driver: Driver, bases: string[], more: Partial<ListRequest> = {}): ListRequest {
  async function* open({ rpc, ids }: MetadataRequest): AsyncGenerator<MetadataMessage> {
    const base = ids['base_snapshot_id'] ?? '';
    const answer = rpc === 'GetMetadataDelta' ? driver.deltas?.[base] : driver.allocated;
    if (answer === undefined) throw refused(StatusCode.NOT_FOUND);
    if (typeof answer === 'number') throw refused(answer);
    yield {
      block_metadata_type: 'VARIABLE_LENGTH',
      volume_capacity_bytes: String(driver.capacity ?? MIB),
      block_metadata: answer.map(([offset, size]) => ({ byte_offset: String(offset), size_bytes: String(size) })),
    };
  }
  return {
    open,
    snapshotId: 'target',
    sizeBytes: MIB,
    bases: bases.map((id) => ({ id, problem: null })),
    reasons: [],
    grainBytes: 4096n,
    path,
    signal: new AbortController().signal,
    ...more,
  };
}

const listed = (): string => readFileSync(path, 'utf8');

test('the first base that the driver answers for is taken, and the list is rounded and merged', async () => {
  const deltas = {
    newest: StatusCode.FAILED_PRECONDITION,
    older: [
      [100n, 1n],
      [5000n, 1n],
      [20480n, 512n],
    ],
  } as const;
  const { baseId, reasons, ranges } = await readChangeList(request({ deltas }, ['newest', 'older', 'oldest']));
  assert.equal(baseId, 'older');
  assert.deepEqual(reasons, ['the driver gives no delta from snapshot newest: refused with 9']);
  assert.equal(listed(), '0 8192\n20480 4096\n');
  assert.equal(ranges.cost.mergedRanges, 2);
  assert.equal(ranges.cost.bytes, 514n);
  assert.equal(ranges.cost.mergedBytes, 12288n);
  assert.equal(ranges.sha256, createHash('sha256').update(listed()).digest('hex'));
});

test('the allocated ranges are copied without a delta, and the record has all reasons', async () => {
  const driver: Driver = { allocated: [[0n, 4096n]], deltas: { base: StatusCode.FAILED_PRECONDITION } };
  const more = { reasons: ['x was left out'] };
  const { baseId, reasons } = await readChangeList(request(driver, ['base'], more));
  assert.equal(baseId, null);
  const delta = 'the driver gives no delta from snapshot base: refused with 9';
  assert.deepEqual(reasons, ['x was left out', delta]);
  assert.equal(listed(), '0 4096\n');
});

test('a refusal that says nothing of the base ends the backup', async () => {
  for (const code of [StatusCode.PERMISSION_DENIED, StatusCode.RESOURCE_EXHAUSTED]) {
    const driver: Driver = { allocated: [[0n, 4096n]], deltas: { base: code } };
    await assert.rejects(readChangeList(request(driver, ['base'])), { code });
  }
});

test('a list ends where the device ends, and is empty if nothing has changed', async () => {
  const beyond: Answer = [
    [MIB - 512n, 1024n],
    [MIB + 4096n, 512n],
  ];
  for (const [capacity, base, copied] of [
    [MIB / 2n, [[0n, 512n]], `0 4096\n${MIB / 2n} ${MIB / 2n}\n`],
    [2n * MIB, beyond, `${MIB - 4096n} 4096\n`],
    [MIB, [], ''],
  ] as const) {
    const { baseId } = await readChangeList(request({ capacity, deltas: { base } }, ['base']));
    assert.equal(baseId, 'base');
    assert.equal(listed(), copied);
  }
});

test('a signal ends the reading with its reason', async () => {
  const signal = AbortSignal.abort(new Error('enough'));
  await assert.rejects(readChangeList(request({ deltas: { base: StatusCode.NOT_FOUND } }, ['base'], { signal })), {
    message: 'enough',
  });
});
