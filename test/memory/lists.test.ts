/** ListVolumes and ListSnapshots: completeness, pages, tokens, filters. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Message } from '../support/csi-client.js';
import { runMemoryPlugin } from '../support/memory-plugin.js';
import { type HeldVolume, MIB } from '../support/orchestrator.js';
import { refused } from '../support/refusal.js';

const COUNT = 7;

const running = runMemoryPlugin({ pools: ['main', 'other'], prepare: fill });
const { orchestrator } = running;
const volumes: HeldVolume[] = [];
const snapshotIds: string[] = [];

type List = 'ListVolumes' | 'ListSnapshots';
const call = (rpc: List, request: Message): Promise<Message> => running.client.controller[rpc](request);
const idsOf = (answer: Message): string[] =>
  answer['entries'].map((entry: Message) => String(entry['volume']?.volume_id ?? entry['snapshot'].snapshot_id));
const known = (rpc: List): string[] => (rpc === 'ListVolumes' ? volumes.map((volume) => volume.id) : snapshotIds);

async function pages(
  rpc: List,
  request: Message,
  between: (page: number) => Promise<void> = async () => {},
): Promise<string[][]> {
  const found: string[][] = [];
  let starting_token = '';
  do {
    const answer = await call(rpc, { ...request, starting_token });
    found.push(idsOf(answer));
    starting_token = answer['next_token'];
    assert.ok(Buffer.byteLength(starting_token) <= 128, 'tokens have at most 128 bytes');
    await between(found.length);
  } while (starting_token !== '');
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
  test(`LV1, LS1, LV2, LS6: ${rpc} gives each entry of every pool once, whatever its pages`, async () => {
    for (const size of [0, 1, 2, 3, COUNT - 1, COUNT, COUNT + 1, 2 ** 31 - 1]) {
      const found = await pages(rpc, { max_entries: size });
      const most = size === 0 ? COUNT : size;
      assert.ok(found.every((page) => page.length <= most && page.length > 0));
      assert.equal(found.length, Math.ceil(COUNT / most));
      assert.deepEqual(found.flat().sort(), [...known(rpc)].sort());
    }
  });

  test(`LV2: a token of ${rpc} gives a page or the rest, twice, and after a restart`, async () => {
    const first = await call(rpc, { max_entries: 2 });
    const starting_token = first['next_token'];
    const rest = await call(rpc, { starting_token });
    assert.equal(rest['next_token'], '');
    assert.deepEqual([...idsOf(first), ...idsOf(rest)].sort(), [...known(rpc)].sort());
    const request = { max_entries: 3, starting_token };
    const second = await call(rpc, request);
    assert.deepEqual(await call(rpc, request), second);
    await running.restart();
    assert.deepEqual(await call(rpc, request), second);
  });

  test(`LV3, LS6, LV4: a negative max_entries of ${rpc} is INVALID_ARGUMENT, a token that it did not issue ABORTED`, async () => {
    await refused(call(rpc, { max_entries: -1 }), 'INVALID_ARGUMENT', /^max_entries /);
    const { next_token: token } = await call(rpc, { max_entries: 1 });
    const other = rpc === 'ListVolumes' ? 'ListSnapshots' : 'ListVolumes';
    const foreign = await call(other, { max_entries: 1 });
    for (const starting_token of [
      'invalid-token',
      '0',
      '1',
      ' ',
      '🗄️',
      't'.repeat(129),
      't'.repeat(100_000),
      `${token}A`,
      token.slice(0, -2),
      token.toUpperCase(),
      `${token}=`,
      foreign['next_token'],
      known(rpc)[0] ?? '',
    ]) {
      await refused(call(rpc, { starting_token }), 'ABORTED', /list again/);
    }
  });
}

test('LS3, LS4, LS5, LV4: filters leave out all others, and a token holds for its filter', async () => {
  const [other, volume] = [volumes[3] as HeldVolume, volumes[4] as HeldVolume];
  const source_volume_id = volume.id;
  const more = [];
  for (const name of ['a', 'b', 'c']) more.push(await orchestrator.snapshot(volume, name));
  const found = await pages('ListSnapshots', { source_volume_id, max_entries: 3 });
  assert.deepEqual(found.flat().sort(), [snapshotIds[4], ...more].sort());
  for (const snapshot_id of [snapshotIds[4], ...more]) {
    for (const filter of [{ snapshot_id }, { snapshot_id, source_volume_id }]) {
      assert.deepEqual(idsOf(await call('ListSnapshots', filter)), [snapshot_id]);
    }
    const contrary = { snapshot_id, source_volume_id: other.id };
    assert.deepEqual(idsOf(await call('ListSnapshots', contrary)), []);
  }
  const page = await call('ListSnapshots', { source_volume_id, max_entries: 1 });
  const starting_token = page['next_token'];
  assert.notEqual(starting_token, '');
  await refused(call('ListSnapshots', { starting_token }), 'ABORTED');
  await refused(call('ListSnapshots', { starting_token, source_volume_id: other.id }), 'ABORTED');
  // What is behind it may go.
  for (const id of more) await orchestrator.deleteSnapshot(id);
  const rest = await call('ListSnapshots', { starting_token, source_volume_id });
  assert.ok(idsOf(rest).length <= 1);
  assert.equal(rest['next_token'], '');
});

const PASSING: Readonly<Record<List, (index: number) => Promise<() => Promise<unknown>>>> = {
  ListVolumes: async (index) => {
    const volume = await orchestrator.create(`passing ${index}`, { sizeBytes: MIB });
    return () => orchestrator.delete(volume);
  },
  ListSnapshots: async (index) => {
    const of = volumes[index % COUNT] as HeldVolume;
    const id = await orchestrator.snapshot(of, `passing ${index}`);
    return () => orchestrator.deleteSnapshot(id);
  },
};
for (const [rpc, make] of Object.entries(PASSING) as [List, (typeof PASSING)[List]][]) {
  test(`LV5: what is created and deleted between pages of ${rpc} causes no error, hides no other and repeats none`, async () => {
    const remove = await Promise.all([0, 1, 2, 3, 4, 5].map(make));
    const found = await pages(rpc, { max_entries: 2 }, async (page) => {
      // The one that a token names is deleted with the rest of its page.
      if (page === 1) for (const each of remove.splice(0, 4)) await each();
      if (page === 2) remove.push(await make(6));
      if (page === 3) await remove.shift()?.();
    });
    const listed = new Set(found.flat());
    assert.equal(listed.size, found.flat().length, 'no entry comes twice');
    for (const id of known(rpc)) assert.ok(listed.has(id), `${id} was passed over`);
    for (const each of remove) await each();
  });
}
