/** ControllerModifyVolume: device settings, applied all or none, stored and restored. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import type { Message } from '../support/csi-client.js';
import { loopsOf } from '../support/loops.js';
import { createRequest, type HeldVolume } from '../support/orchestrator.js';
import { refused } from '../support/refusal.js';
import { runPlugin, test } from '../support/running-plugin.js';

const running = runPlugin('modify', {
  pools: { main: 'xfs' },
  // No limit of a pod can be set there.
  env: { BLOCKDELTA_CGROUP_ROOT: '/proc' },
});
const { orchestrator } = running;
const controller = () => running.client.controller;
const modify = (volume: HeldVolume, mutable_parameters: Message): Promise<Message> =>
  controller().ControllerModifyVolume({ volume_id: volume.id, mutable_parameters });

/** An attribute of the volume's loop device. */
function attribute(volume: HeldVolume, name: string): string {
  const [device] = loopsOf(running.poolPath('main', 'volumes', volume.id));
  assert.ok(device !== undefined, 'the volume is attached');
  return readFileSync(`/sys/block/${basename(device)}/${name}`, 'utf8').trim();
}
const readAhead = (volume: HeldVolume): number => Number(attribute(volume, 'queue/read_ahead_kb'));
const directIo = (volume: HeldVolume): string => attribute(volume, 'loop/dio');

async function withVolume(
  name: string,
  mutable: Message | null,
  work: (volume: HeldVolume) => Promise<void>,
): Promise<void> {
  const { volume } = await controller().CreateVolume({
    ...createRequest(name),
    ...(mutable === null ? {} : { mutable_parameters: mutable }),
  });
  const held = orchestrator.hold(name, volume);
  try {
    await work(held);
  } finally {
    await orchestrator.takeDown(held);
    await orchestrator.delete(held);
  }
}

test('MV4: a setting this node cannot apply is INVALID_ARGUMENT, and the rest of the call is rolled back', async () => {
  await withVolume('taken back', { readAheadKiB: '64' }, async (volume) => {
    await orchestrator.stage(volume);
    await orchestrator.publish(volume, { podUid: '7c8e2f0a-0001-4000-8000-000000000001' });
    const limited = { readAheadKiB: '256', loopDirectIo: 'false', readBytesPerSecond: '1048576' };
    await refused(modify(volume, limited), 'INVALID_ARGUMENT', /cgroup v2/);
    assert.deepEqual([readAhead(volume), directIo(volume)], [64, '1']);
    await orchestrator.takeDown(volume);
    await orchestrator.bringUp(volume);
    assert.equal(readAhead(volume), 64, 'and nothing of it is remembered');
  });
});

test('changes to a volume in use accumulate, and persist over a kill and another staging', async () => {
  await withVolume('in use', { readAheadKiB: '64' }, async (volume) => {
    await orchestrator.bringUp(volume);
    assert.equal(readAhead(volume), 64);
    for (let repeat = 0; repeat < 2; repeat += 1) {
      await modify(volume, { loopDirectIo: 'false' });
      assert.deepEqual([readAhead(volume), directIo(volume)], [64, '0']);
    }
    await modify(volume, { readAheadKiB: '512' });
    assert.deepEqual([readAhead(volume), directIo(volume)], [512, '0']);
    await running.crash();
    await orchestrator.takeDown(volume);
    await orchestrator.bringUp(volume);
    assert.deepEqual([readAhead(volume), directIo(volume)], [512, '0']);
  });
});

test('a volume that is not in use gets its new settings when it is staged', async () => {
  await withVolume('unused', null, async (volume) => {
    await modify(volume, { readAheadKiB: '32' });
    await orchestrator.bringUp(volume);
    assert.equal(readAhead(volume), 32);
  });
});

test('mutable parameters win over parameters of the same name', async () => {
  const name = 'override';
  const parameters = { readAheadKiB: '64', loopDirectIo: 'false' };
  const { volume } = await controller().CreateVolume({
    ...createRequest(name, { parameters }),
    mutable_parameters: { readAheadKiB: '256' },
  });
  const held = orchestrator.hold(name, volume);
  await orchestrator.bringUp(held);
  assert.deepEqual([readAhead(held), directIo(held)], [256, '0']);
  await orchestrator.takeDown(held);
  await orchestrator.delete(held);
});
