import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encodeMessage } from '../../../src/base/csi/proto.js';
import { StatusCode } from '../../../src/base/errors.js';
import { decodePosition, encodePosition, type ListRequest, mergedPage } from '../../../src/router/merged-lists.js';
import { decode, fieldsOf } from '../../../src/router/messages.js';

interface List {
  entries: { volume: { volume_id: string } }[];
  next_token: string;
}

const KEYS = ['aaaaaaaaaaaa', 'bbbbbbbbbbbb', 'cccccccccccc'];

/** Nodes with so many entries each, whose tokens are indices. */
function nodes(counts: Readonly<Record<string, number>>, padding = 0) {
  return async (key: string, { maxEntries, startingToken }: ListRequest): Promise<Buffer> => {
    const begin = Number(startingToken || 0);
    const count = counts[key] ?? 0;
    const end = maxEntries === 0 ? count : Math.min(count, begin + maxEntries);
    const entries = Array.from({ length: end - begin }, (_, index) => ({
      volume: { volume_id: `${key}-${begin + index}${'x'.repeat(padding)}` },
    }));
    return encodeMessage('ListVolumesResponse', { entries, next_token: end < count ? String(end) : '' });
  };
}

async function page(
  counts: Readonly<Record<string, number>>,
  request: ListRequest,
  keys = KEYS,
  padding = 0,
): Promise<{ ids: string[]; token: string }> {
  const bytes = await mergedPage(keys, request, nodes(counts, padding));
  const { entries, next_token } = decode<List>('ListVolumesResponse', bytes);
  return { ids: entries.map(({ volume }) => volume.volume_id), token: next_token };
}

test('a list goes on when its node was removed, and when nodes were added', async () => {
  const counts = { aaaaaaaaaaaa: 2, bbbbbbbbbbbb: 3, cccccccccccc: 1 };
  const { token } = await page(counts, { maxEntries: 3, startingToken: '' });
  assert.deepEqual(decodePosition(token), { key: 'bbbbbbbbbbbb', token: '1' });
  const request = { maxEntries: 0, startingToken: token };
  const without = await page(counts, request, ['aaaaaaaaaaaa', 'cccccccccccc']);
  assert.deepEqual(without.ids, ['cccccccccccc-0']);
  const more = { ...counts, bbbbbbbbbbbd: 1 };
  const longer = await page(more, request, [...KEYS, 'bbbbbbbbbbbd'].toSorted());
  assert.equal(longer.ids.length, 4);
});

test('a page ends before it is too large for clients', async () => {
  const counts = { aaaaaaaaaaaa: 400, bbbbbbbbbbbb: 400 };
  const request = { maxEntries: 0, startingToken: '' };
  const { ids, token } = await page(counts, request, KEYS, 10_000);
  assert.equal(ids.length, 400);
  assert.deepEqual(decodePosition(token), { key: 'bbbbbbbbbbbb', token: '' });
});

test('a token that the router has not made is ABORTED', () => {
  const tokens = ['x', '.', 'AAAAAAAAAAAA.x', 'aaaaaaaaaaaa', 'aaaaaaaaaaaa.a.b', 'aaaaaaaaaaaa. '];
  for (const token of tokens) {
    assert.throws(() => decodePosition(token), { code: StatusCode.ABORTED }, token);
  }
  assert.equal(decodePosition(''), null);
  const position = { key: 'aaaaaaaaaaaa', token: 'A-_9' };
  assert.deepEqual(decodePosition(encodePosition(position)), position);
});

test('fields that the proto does not know are kept', async () => {
  // Field 99, a string, in the response and in an entry.
  const unknown = Buffer.from([0x9a, 0x06, 0x02, 0x68, 0x69]);
  const entry = Buffer.concat([Buffer.from([0x0a, unknown.length]), unknown]);
  const bytes = await mergedPage(['aaaaaaaaaaaa'], { maxEntries: 0, startingToken: '' }, async () =>
    Buffer.concat([entry, unknown]),
  );
  assert.deepEqual(bytes, Buffer.concat([entry, unknown]));
});

test('bytes that are no message are INTERNAL', () => {
  assert.throws(() => fieldsOf(Buffer.from([0x0a, 0xff])), { code: StatusCode.INTERNAL });
});
