/** Names of volumes and snapshots: what CSI allows, what it bans, and that they are never paths. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import type { Message } from '../support/csi-client.js';
import { runMemoryPlugin } from '../support/memory-plugin.js';
import { createRequest, MIB } from '../support/orchestrator.js';

/** Names of volumes and snapshots that CSI allows, and that would be traps as paths. */
const NAMES: Readonly<Record<string, string>> = {
  'a slash': 'a/b',
  'a relative path': '../../../etc/passwd',
  'an absolute path': '/etc/passwd',
  'a dot': '.',
  'two dots': '..',
  'a trailing .tmp': 'volume.tmp',
  'a name of our own handles': 'vol-0123456789ab-00000000-0000-0000-0000-000000000000',
  'a space': ' ',
  'spaces around': ' name ',
  'a tab, a line feed and a carriage return': 'a\tb\nc\rd',
  quotes: `'";--\``,
  'a percent sign and a backslash': '%n%s\\',
  'an emoji': 'volume 🗄️',
  'a right-to-left override': 'a\u202eb',
  'a combined letter': 'e\u0301',
  'the same letter composed': '\u00e9',
  'no-break space U+00A0, the first after the banned ones': '\u00a0',
  'a line separator': 'a\u2028b',
  '128 bytes of ASCII': 'n'.repeat(128),
  '128 bytes in 32 characters': '🗄'.repeat(32),
  __proto__: '__proto__',
};

const running = runMemoryPlugin('names', { pools: ['main'] });
const request = (name: string): Message => createRequest(name, { sizeBytes: MIB });

for (const [label, name] of Object.entries(NAMES)) {
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
    const { volumes, snapshots } = running.backend().storage;
    const held = [...volumes.keys(), ...snapshots.keys()];
    assert.deepEqual(held, [id, snapshot.snapshot_id], 'a pool sees ids only');
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

test('volumes and snapshots of any name are removed from the pool when they are deleted', () => {
  const { volumes, snapshots, used } = running.storages.get('main') ?? assert.fail('no pool');
  assert.deepEqual([...volumes.keys(), ...snapshots.keys(), ...used], []);
});
