/** CSI's table of second publications on one node (rule NP4), for every supported access mode. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import type { VolumeRecord } from '../../src/catalogue/records.js';
import { rejectsWith } from '../support/expect-status.js';
import { test as rootTest } from '../support/running-plugin.js';
import { blockCapability, mountCapability, NOTHING, useNode } from './node-fixture.js';

const node = useNode('node-modes');

type Capability = ReturnType<typeof mountCapability>;
type Make = (mode: string) => Capability;

const ONE_TARGET = ['SINGLE_NODE_WRITER', 'SINGLE_NODE_READER_ONLY', 'SINGLE_NODE_SINGLE_WRITER'];
const MULTI = 'SINGLE_NODE_MULTI_WRITER';
const KINDS: readonly (readonly [string, Make])[] = [
  ['mount', (mode) => mountCapability('ext4', mode)],
  ['block', (mode) => blockCapability(mode)],
];

async function staged(capability: Capability): Promise<VolumeRecord> {
  const volume = await node.makeVolume();
  await node.stage(volume, capability);
  return volume;
}

async function cleared(volume: VolumeRecord, ...targets: string[]): Promise<void> {
  for (const target_path of targets) await node.unpublish(volume, { target_path });
  await node.unstage(volume);
  assert.deepEqual(node.held(), NOTHING);
  assert.deepEqual(readdirSync(node.workspace.path('pods')), []);
}

for (const [kind, make] of KINDS) {
  for (const mode of [...ONE_TARGET, MULTI]) {
    rootTest(
      `NP4: ${mode}, ${kind}, same target: the same is OK, another ALREADY_EXISTS`,
      async () => {
        const volume = await staged(make(mode));
        const target = node.targetPath(volume.volumeId);
        const readonly = mode === 'SINGLE_NODE_READER_ONLY';
        for (let time = 0; time < 3; time += 1)
          await node.publish(volume, make(mode), { readonly });
        const others: [Capability, object][] = [
          [make(mode), { readonly: !readonly }],
          [make(mode === MULTI ? 'SINGLE_NODE_WRITER' : MULTI), { readonly }],
          [kind === 'mount' ? blockCapability(mode) : mountCapability('ext4', mode), { readonly }],
          [make(mode), { readonly, staging_target_path: node.stagingPath('elsewhere') }],
        ];
        for (const [capability, fields] of others) {
          const answer = node.publish(volume, capability, { ...fields });
          await rejectsWith(answer, 'ALREADY_EXISTS', /with other arguments/);
        }
        await node.publish(volume, make(mode), { readonly, secrets: { token: 'differs' } });
        await cleared(volume, target);
      },
    );
  }

  for (const mode of ONE_TARGET) {
    rootTest(`NP4: ${mode}, ${kind}, other target: FAILED_PRECONDITION`, async () => {
      const volume = await staged(make(mode));
      const [first, second] = [node.targetPath('first'), node.targetPath('second')];
      await node.publish(volume, make(mode), { target_path: first });
      for (const fields of [{}, { readonly: true }]) {
        const answer = node.publish(volume, make(mode), { ...fields, target_path: second });
        await rejectsWith(answer, 'FAILED_PRECONDITION', new RegExp(`${first}.*${mode}`));
      }
      const multi = node.publish(volume, make(MULTI), { target_path: second });
      const refused = mode === 'SINGLE_NODE_READER_ONLY' ? /read-only/ : /another volume_capab/;
      await rejectsWith(multi, 'FAILED_PRECONDITION', refused);
      assert.equal(existsSync(second), false);
      await cleared(volume, first);
    });
  }

  rootTest(`NP4, NP9: ${MULTI}, ${kind}: several targets at once, one capability`, async () => {
    const volume = await staged(make(MULTI));
    const targets = ['a', 'b', 'c'].map((name) => node.targetPath(name));
    for (let time = 0; time < 2; time += 1) {
      for (const target_path of targets) await node.publish(volume, make(MULTI), { target_path });
    }
    assert.equal(node.held().mounts.length, 4);
    const other = { target_path: node.targetPath('d') };
    const answer = node.publish(volume, make('SINGLE_NODE_WRITER'), other);
    await rejectsWith(answer, 'FAILED_PRECONDITION', /allows one target at a time/);
    assert.equal(existsSync(other.target_path), false);
    await node.unpublish(volume, { target_path: targets[1] });
    await rejectsWith(node.unstage(volume), 'FAILED_PRECONDITION', /still published/);
    assert.equal((await node.catalogue.publications(volume.volumeId)).length, 2);
    await cleared(volume, ...targets);
  });

  rootTest(
    `NP9: MULTI_NODE modes, ${kind}, are refused, because a volume belongs to one node`,
    async () => {
      const volume = await staged(make(MULTI));
      for (const mode of [
        'MULTI_NODE_READER_ONLY',
        'MULTI_NODE_SINGLE_WRITER',
        'MULTI_NODE_MULTI_WRITER',
      ]) {
        await rejectsWith(node.publish(volume, make(mode)), 'FAILED_PRECONDITION', /not supported/);
      }
      await cleared(volume);
    },
  );
}

rootTest(
  `NP4, NP7: ${MULTI}, mount: each target is read-only or writable independently`,
  async () => {
    const capability = mountCapability('ext4', MULTI);
    const volume = await staged(capability);
    const [writer, reader] = [node.targetPath('writer'), node.targetPath('reader')];
    await node.publish(volume, capability, { target_path: reader, readonly: true });
    await node.publish(volume, capability, { target_path: writer });
    writeFileSync(`${writer}/data`, 'shared', { flush: true });
    assert.equal(readFileSync(`${reader}/data`, 'utf8'), 'shared');
    assert.throws(() => writeFileSync(`${reader}/x`, ''), /EROFS/);
    await cleared(volume, writer, reader);
  },
);

rootTest(
  `NP7: ${MULTI}, block: all targets are read-only or none, because the device is`,
  async () => {
    const capability = blockCapability(MULTI);
    const volume = await staged(capability);
    const [first, second] = [node.targetPath('first'), node.targetPath('second')];
    for (const readonly of [true, false]) {
      await node.publish(volume, capability, { target_path: first, readonly });
      const answer = node.publish(volume, capability, { target_path: second, readonly: !readonly });
      await rejectsWith(answer, 'FAILED_PRECONDITION', /one or the other for all its users/);
      assert.equal(await node.deviceReadOnly(volume), readonly);
      await node.publish(volume, capability, { target_path: second, readonly });
      await node.unpublish(volume, { target_path: first });
      assert.equal(await node.deviceReadOnly(volume), readonly, 'the other target still is');
      await node.unpublish(volume, { target_path: second });
      assert.equal(await node.deviceReadOnly(volume), false);
    }
    await cleared(volume);
  },
);

rootTest('publications from before a reboot do not count as other targets', async () => {
  const capability = mountCapability('ext4', MULTI);
  const volume = await staged(capability);
  const kept = node.targetPath('kept');
  await node.publish(volume, capability, { target_path: kept });
  const [gone] = await node.catalogue.publications(volume.volumeId);
  assert.ok(gone !== undefined);
  const targetPath = node.targetPath('gone');
  await node.catalogue.putPublication({ ...gone, targetPath, resolvedPath: targetPath });
  await node.publish(volume, capability, { target_path: node.targetPath('next') });
  const paths = (await node.catalogue.publications(volume.volumeId)).map((one) => one.targetPath);
  assert.deepEqual(paths.sort(), [kept, node.targetPath('next')].sort());
  await cleared(volume, kept, node.targetPath('next'));
});
