/** Names of volumes and snapshots: what CSI allows, what it bans, and that they are never paths. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { CONFORMING_NAMES } from '../support/conforming-names.js';
import type { Message } from '../support/csi-client.js';
import { runMemoryPlugin } from '../support/memory-plugin.js';
import { createRequest, MIB } from '../support/orchestrator.js';
import { refused } from '../support/refusal.js';

const BANNED = [0x00, 0x01, 0x08, 0x0b, 0x0c, 0x0e, 0x1f, 0x7f, 0x80, 0x85, 0x9f];

const TOO_LONG: Readonly<Record<string, string>> = {
  '129 bytes of ASCII': 'n'.repeat(129),
  '129 bytes in 43 characters': '€'.repeat(43),
  '64 KiB': 'n'.repeat(65536),
};

const shown = (codePoint: number): string =>
  `U+${codePoint.toString(16).toUpperCase().padStart(4, '0')}`;

const running = runMemoryPlugin('names', { pools: ['main'] });
const { orchestrator } = running;
const request = (name: string): Message => createRequest(name, { sizeBytes: MIB });

for (const [label, name] of Object.entries(CONFORMING_NAMES)) {
  test(`a volume and a snapshot may be named ${label}`, async () => {
    const first = await running.client.controller.CreateVolume(request(name));
    const again = await running.client.controller.CreateVolume(request(name));
    assert.deepEqual(again, first);
    const id: string = first['volume'].volume_id;
    assert.match(id, /^vol-[0-9a-f]{12}-[0-9a-f-]{36}$/);
    const { snapshot } = await running.client.controller.CreateSnapshot({
      source_volume_id: id,
      name,
    });
    assert.match(snapshot.snapshot_id, /^snap-[0-9a-f]{12}-[0-9a-f-]{36}$/);
    await running.client.controller.DeleteSnapshot({ snapshot_id: snapshot.snapshot_id });
    await running.client.controller.DeleteVolume({ volume_id: id });
  });
}

test('names that differ only in case or Unicode form are different names', async () => {
  const names = ['pvc', 'PVC', 'e\u0301', '\u00e9', 'pvc ', ' pvc'];
  const ids = new Set<string>();
  for (const name of names) {
    const { volume } = await running.client.controller.CreateVolume(request(name));
    ids.add(volume.volume_id);
  }
  assert.equal(ids.size, names.length);
  for (const id of ids) await running.client.controller.DeleteVolume({ volume_id: id });
});

for (const codePoint of BANNED) {
  test(`G6: ${shown(codePoint)} in a name is INVALID_ARGUMENT`, async () => {
    const name = `a${String.fromCodePoint(codePoint)}b`;
    const says = /^name contains .*U\+/;
    await refused(running.client.controller.CreateVolume(request(name)), 'INVALID_ARGUMENT', says);
    const snapshot = { source_volume_id: 'any', name };
    await refused(
      running.client.controller.CreateSnapshot(snapshot),
      ['INVALID_ARGUMENT', 'NOT_FOUND'],
      /./,
    );
  });
}

for (const [label, name] of Object.entries(TOO_LONG)) {
  test(`G6: a name of ${label} is INVALID_ARGUMENT`, async () => {
    const volume = running.client.controller.CreateVolume(request(name));
    await refused(volume, 'INVALID_ARGUMENT', /^name /);
    const call = running.client.controller.CreateSnapshot({ source_volume_id: 'any', name });
    await refused(call, ['INVALID_ARGUMENT', 'NOT_FOUND']);
  });
}

test('a banned or long name of a snapshot of an existing volume is INVALID_ARGUMENT', async () => {
  const volume = await orchestrator.create('named');
  for (const name of ['a\u0000b', 'a\u0085b', 'n'.repeat(129)]) {
    await refused(orchestrator.snapshot(volume, name), 'INVALID_ARGUMENT', /^name /);
  }
  await orchestrator.delete(volume);
});

test('volumes and snapshots of any name are removed from the pool when they are deleted', () => {
  const { volumes, snapshots, used } = running.storages.get('main') ?? assert.fail('no pool');
  assert.deepEqual([...volumes.keys(), ...snapshots.keys(), ...used], []);
});
