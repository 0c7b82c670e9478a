/** ListVolumes and ListSnapshots: completeness, pages, tokens, filters. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Message } from '../support/csi-client.js';
import { runMemoryPlugin } from '../support/memory-plugin.js';
import { type HeldVolume, MIB } from '../support/orchestrator.js';
import { refused } from '../support/refusal.js';

const COUNT = 7;

const running = runMemoryPlugin('lists', { pools: ['main', 'other'], prepare: fill });
const { orchestrator } = running;
const volumes: HeldVolume[] = [];
const snapshotIds: string[] = [];

type List = 'ListVolumes' | 'ListSnapshots';
const call = (rpc: List, request: Message): Promise<Message> =>
  running.client.controller[rpc](request);
const idsOf = (answer: Message): string[] =>
  answer['entries'].map((entry: Message) =>
    String(entry['volume']?.volume_id ?? entry['snapshot'].snapshot_id),
  );
const known = (rpc: List): string[] =>
  rpc === 'ListVolumes' ? volumes.map((volume) => volume.id) : snapshotIds;

async function pages(
  rpc: List,
  size: number,
  between: (page: number) => Promise<void> = async () => {},
  filter: Message = {},
): Promise<string[][]> {
  const found: string[][] = [];
  let token = '';
  do {
    const answer = await call(rpc, { ...filter, max_entries: size, starting_token: token });
    found.push(idsOf(answer));
    token = answer['next_token'];
    assert.ok(Buffer.byteLength(token) <= 128, 'tokens have at most 128 bytes');
    await between(found.length);
  } while (token !== '');
  return found;
}

async function fill(): Promise<void> {
  for (let index = 0; index < COUNT; index += 1) {
    const pool = index % 2 === 0 ? 'main' : 'other';
    const spec = { sizeBytes: MIB, parameters: { pool } };
    const volume = await orchestrator.create(`volume ${index}`, spec);
    volumes.push(volume);
    snapshotIds.push(await orchestrator.snapshot(volume, `snapshot ${index}`));
  }
}

for (const rpc of ['ListVolumes', 'ListSnapshots'] as const) {
  test(`LV1, LS1: ${rpc} lists every pool in full, without a token`, async () => {
    const answer = await call(rpc, {});
    assert.deepEqual(idsOf(answer).sort(), [...known(rpc)].sort());
    assert.equal(answer['next_token'], '');
  });

  for (const size of [1, 2, 3, COUNT - 1, COUNT, COUNT + 1, 2 ** 31 - 1]) {
    test(`LV2, LS6: pages of ${size} of ${rpc} give each entry once`, async () => {
      const found = await pages(rpc, size);
      assert.ok(found.every((page) => page.length <= size && page.length > 0));
      assert.equal(found.length, Math.ceil(COUNT / size));
      assert.deepEqual(found.flat().sort(), [...known(rpc)].sort());
    });
  }

  test(`LV2: without a limit, a token gives all remaining entries of ${rpc}`, async () => {
    const first = await call(rpc, { max_entries: 2 });
    const rest = await call(rpc, { starting_token: first['next_token'] });
    assert.equal(rest['next_token'], '');
    assert.deepEqual([...idsOf(first), ...idsOf(rest)].sort(), [...known(rpc)].sort());
  });

  test(`LV2: a token of ${rpc} may be used twice, and after a restart`, async () => {
    const first = await call(rpc, { max_entries: 3 });
    const request = { max_entries: 3, starting_token: first['next_token'] };
    const second = await call(rpc, request);
    assert.deepEqual(await call(rpc, request), second);
    await running.restart();
    assert.deepEqual(await call(rpc, request), second);
  });

  test(`LV3, LS6: a negative max_entries of ${rpc} is INVALID_ARGUMENT`, async () => {
    await refused(call(rpc, { max_entries: -1 }), 'INVALID_ARGUMENT', /^max_entries /);
  });

  test(`LV4, LS6: a token that ${rpc} did not issue is ABORTED`, async () => {
    const { next_token: token } = await call(rpc, { max_entries: 1 });
    const other = rpc === 'ListVolumes' ? 'ListSnapshots' : 'ListVolumes';
    const foreign = await call(other, { max_entries: 1 });
    const tokens = [
      'invalid-token',
      '0',
      '1',
      ' ',
      '🗄️',
      `${token}A`,
      token.slice(0, -2),
      token.toUpperCase(),
      `${token}=`,
      foreign['next_token'],
      known(rpc)[0] ?? '',
      't'.repeat(129),
      't'.repeat(100_000),
    ];
    for (const starting_token of tokens) {
      await refused(call(rpc, { starting_token }), 'ABORTED', /list again/);
    }
  });
}

test('LS3, LS4: snapshot_id and source_volume_id filter', async () => {
  const volume = volumes[4] as HeldVolume;
  const more = [];
  for (const name of ['a', 'b', 'c']) more.push(await orchestrator.snapshot(volume, name));
  const filter = { source_volume_id: volume.id };
  const found = await pages('ListSnapshots', 3, async () => {}, filter);
  assert.deepEqual(found.flat().sort(), [snapshotIds[4], ...more].sort());
  for (const snapshot_id of [snapshotIds[4], ...more]) {
    assert.deepEqual(idsOf(await call('ListSnapshots', { snapshot_id })), [snapshot_id]);
  }
  for (const id of more) await orchestrator.deleteSnapshot(id);
});

test('LS5: with both filters, both must match', async () => {
  const [first, second] = volumes;
  const both = { snapshot_id: snapshotIds[0], source_volume_id: first?.id };
  assert.deepEqual(idsOf(await call('ListSnapshots', both)), [snapshotIds[0]]);
  const contrary = { snapshot_id: snapshotIds[0], source_volume_id: second?.id };
  assert.deepEqual(idsOf(await call('ListSnapshots', contrary)), []);
});

test('LV4: a token of a filtered list is ABORTED for another filter', async () => {
  const volume = volumes[5] as HeldVolume;
  const extra = await orchestrator.snapshot(volume, 'extra');
  const filter = { source_volume_id: volume.id };
  const { next_token: token } = await call('ListSnapshots', { ...filter, max_entries: 1 });
  assert.notEqual(token, '');
  await refused(call('ListSnapshots', { starting_token: token }), 'ABORTED');
  const other = { source_volume_id: volumes[6]?.id, starting_token: token };
  await refused(call('ListSnapshots', other), 'ABORTED');
  await orchestrator.deleteSnapshot(extra);
});

test('LV5: snapshots created and deleted between pages cause no error, hide no others and repeat none', async () => {
  const mine = await Promise.all(
    Array.from({ length: 6 }, (_, index) =>
      orchestrator.snapshot(volumes[index] as HeldVolume, `passing ${index}`),
    ),
  );
  // The one a token names is deleted with the rest of its page.
  const found = await pages('ListSnapshots', 2, async (page) => {
    if (page === 1) for (const id of mine) await orchestrator.deleteSnapshot(id);
  });
  const listed = new Set(found.flat());
  assert.equal(listed.size, found.flat().length, 'no entry comes twice');
  for (const id of snapshotIds) assert.ok(listed.has(id), `${id} was passed over`);
});

test('LV5: volumes created and deleted between pages cause no error, hide no others and repeat none', async () => {
  const extra: HeldVolume[] = [];
  for (let index = 0; index < 6; index += 1) {
    extra.push(await orchestrator.create(`passing ${index}`, { sizeBytes: MIB }));
  }
  const found = await pages('ListVolumes', 1, async (page) => {
    const volume = extra.pop();
    if (volume !== undefined) await orchestrator.delete(volume);
    if (page === 3) await orchestrator.create('late', { sizeBytes: MIB });
  });
  const listed = new Set(found.flat());
  assert.equal(listed.size, found.flat().length, 'no entry comes twice');
  for (const volume of volumes) assert.ok(listed.has(volume.id), `${volume.id} was passed over`);
  await orchestrator.delete(await orchestrator.create('late', { sizeBytes: MIB }));
});

test('LV5: a token stays valid when all entries after it are deleted', async () => {
  const volume = volumes[0] as HeldVolume;
  const filter = { source_volume_id: volume.id };
  const extra = [
    await orchestrator.snapshot(volume, 'behind 1'),
    await orchestrator.snapshot(volume, 'behind 2'),
  ];
  const { next_token: token } = await call('ListSnapshots', { ...filter, max_entries: 1 });
  for (const id of extra) await orchestrator.deleteSnapshot(id);
  const rest = await call('ListSnapshots', { ...filter, starting_token: token });
  assert.ok(idsOf(rest).length <= 1);
  assert.equal(rest['next_token'], '');
});
