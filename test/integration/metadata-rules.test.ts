/**
 * Rules of the changed-block streams that hold from the first message to the last, also for volumes
 * that were expanded or cloned. Lists are compared with the bytes of the snapshots' files.
 */
import assert from 'node:assert/strict';
import { closeSync, openSync, readFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { AsyncCatalogue } from '../../src/catalogue/catalogue-client.js';
import { createSnapshotMetadataService } from '../../src/metadata/snapshot-metadata.js';
import { ScanThreads } from '../../src/native/scan-threads.js';
import { OperationLocks } from '../../src/volumes/operation-locks.js';
import { MemoryBackend } from '../backend/memory-backend.js';
import { callContext } from '../support/call-context.js';
import { blockCapability, type Message } from '../support/csi-client.js';
import { rejectsWith } from '../support/expect-status.js';
import { assertSound } from '../support/metadata-check.js';
import { seededRandom } from '../support/random.js';
import { received } from '../support/received-request.js';
import { snapshotRecord, volumeRecord } from '../support/records.js';
import { runPlugin } from '../support/running-plugin.js';
import { SnapshotImage } from '../support/snapshot-image.js';
import {
  readSnapshot,
  snapshotPath,
  type TestSnapshot,
  TestVolume,
} from '../support/test-volume.js';
import { patientTurn } from '../support/turn.js';
import { skipUnlessRoot } from '../support/workspace.js';

const MIB = 1 << 20;
const BLOCK = 4096;
const options = { skip: skipUnlessRoot };
const random = seededRandom('metadata rules');
let volume: TestVolume;
const running = runPlugin('metadata-rules', {
  pools: { main: 'xfs' },
  prepare: async ({ client, workspace }) => {
    volume = await TestVolume.create(client, workspace, { sizeBytes: 8 * MIB });
    await volume.publish();
  },
});

/** Scattered blocks in a range of the device, all of them durable. */
function scribble(path: string, from: number, to: number, count: number): void {
  const fd = openSync(path, 'r+');
  for (let done = 0; done < count; done += 1) {
    const offset = from + BLOCK * random.below((to - from) / BLOCK);
    writeSync(fd, random.bytes(BLOCK), 0, BLOCK, offset);
  }
  closeSync(fd);
}

async function messages(
  rpc: 'GetMetadataAllocated' | 'GetMetadataDelta',
  request: Message,
): Promise<Message[]> {
  const found: Message[] = [];
  for await (const message of running.client.open(rpc, request) as AsyncIterable<Message>) {
    found.push(message);
  }
  return found;
}

function image(snapshot: TestSnapshot): SnapshotImage {
  return readSnapshot(running.poolPath('main'), snapshot);
}

test(
  'SM13, SM14, SM15 and SM16: entries ascend without overlap, and type and capacity never change',
  options,
  async () => {
    const base = await volume.snapshot();
    scribble(volume.targetPath, 0, volume.sizeBytes, 400);
    const target = await volume.snapshot();
    const pair = { base_snapshot_id: base.id, target_snapshot_id: target.id, max_results: 3 };
    const lists = [
      await messages('GetMetadataDelta', pair),
      await messages('GetMetadataAllocated', { snapshot_id: target.id, max_results: 3 }),
    ];
    for (const list of lists) {
      assert.ok(list.length > 20, 'a list of many messages');
      let end = 0n;
      for (const message of list) {
        assert.equal(message['block_metadata_type'], 'VARIABLE_LENGTH');
        assert.equal(message['volume_capacity_bytes'], String(target.sizeBytes));
        for (const { byte_offset, size_bytes } of message['block_metadata']) {
          assert.ok(BigInt(byte_offset) >= end && BigInt(size_bytes) > 0n);
          end = BigInt(byte_offset) + BigInt(size_bytes);
        }
      }
      assert.ok(end <= BigInt(target.sizeBytes));
    }
  },
);

test(
  'SM16 and SM24: after an expansion the new part is covered, and the capacity is the target snapshot, not the volume',
  options,
  async () => {
    const grown = await TestVolume.create(running.client, running.workspace, {
      sizeBytes: 4 * MIB,
    });
    await grown.publish();
    scribble(grown.targetPath, 0, 4 * MIB, 50);
    const before = await grown.snapshot();
    const wanted = { volume_id: grown.id, capacity_range: { required_bytes: String(8 * MIB) } };
    await running.client.controller.ControllerExpandVolume(wanted);
    scribble(grown.targetPath, 0, 8 * MIB, 50);
    scribble(grown.targetPath, 8 * MIB - BLOCK, 8 * MIB, 1);
    const after = await grown.snapshot();
    assert.deepEqual([before.sizeBytes, after.sizeBytes], [4 * MIB, 8 * MIB]);
    assert.equal((await running.client.allocated(before.id)).capacity, BigInt(4 * MIB));
    const delta = await running.client.delta(before.id, after.id);
    assert.equal(delta.capacity, BigInt(8 * MIB));
    const file = readFileSync(snapshotPath(running.poolPath('main'), before.id));
    const base = SnapshotImage.of(Buffer.concat([file, Buffer.alloc(4 * MIB)]));
    assertSound(base, image(after), delta, 'delta over an expansion');
    assertSound(
      SnapshotImage.zeros(8 * MIB),
      image(after),
      await running.client.allocated(after.id),
      'allocated after an expansion',
    );
    await grown.unpublish();
  },
);

test(
  'SM23 and SM24: the lists of a clone are those of its own bytes, inherited ones included',
  options,
  async () => {
    scribble(volume.targetPath, 0, volume.sizeBytes, 100);
    const answer = await running.client.controller.CreateVolume({
      name: 'clone for lists',
      capacity_range: { required_bytes: String(2 * volume.sizeBytes) },
      volume_capabilities: [blockCapability()],
      volume_content_source: { volume: { volume_id: volume.id } },
    });
    const cloneId = answer['volume'].volume_id as string;
    const take = async (name: string): Promise<TestSnapshot> => {
      const { snapshot } = await running.client.controller.CreateSnapshot({
        source_volume_id: cloneId,
        name,
      });
      return { id: snapshot.snapshot_id, sizeBytes: Number(snapshot.size_bytes) };
    };
    const inherited = await take('inherited');
    const zeros = SnapshotImage.zeros(inherited.sizeBytes);
    const allocated = await running.client.allocated(inherited.id);
    assertSound(zeros, image(inherited), allocated, 'allocated list of a clone');
    assert.ok(allocated.ranges.length > 0);
    const file = join(running.poolPath('main'), 'volumes', cloneId);
    scribble(file, 0, inherited.sizeBytes, 60);
    const later = await take('later');
    const delta = await running.client.delta(inherited.id, later.id);
    assertSound(image(inherited), image(later), delta, 'delta of a clone');
  },
);

test('SM27: a snapshot can be restored and read while its list is streamed', options, async () => {
  const snapshot = await volume.snapshot();
  const stream = running.client.open('GetMetadataAllocated', {
    snapshot_id: snapshot.id,
    max_results: 1,
  });
  let seen = 0;
  for await (const _ of stream as AsyncIterable<Message>) {
    seen += 1;
    if (seen !== 1) continue;
    const copy = await TestVolume.create(running.client, running.workspace, {
      sizeBytes: snapshot.sizeBytes,
      sourceSnapshotId: snapshot.id,
    });
    await copy.publish(true);
    const found = SnapshotImage.read(copy.targetPath, snapshot.sizeBytes, null);
    const held = image(snapshot);
    assert.ok(held.chunks.every((_, index) => held.sameChunk(found, index)));
    await copy.unpublish();
  }
  assert.ok(seen > 1);
});

test('SM12: a snapshot whose creation has not completed is FAILED_PRECONDITION', async () => {
  const half = { ...snapshotRecord(volumeRecord(), { state: 'creating' }), sequence: 1n };
  const service = createSnapshotMetadataService({
    // Of the catalogue only this one call is used.
    catalogue: { snapshotById: async () => half } as unknown as AsyncCatalogue,
    locks: new OperationLocks(),
    scanThreads: new ScanThreads({ fill: () => assert.fail('nothing is scanned') }, 1),
    backendOf: () => new MemoryBackend(),
  });
  const call = service.streams.GetMetadataAllocated;
  const writer = { send: () => assert.fail('nothing is sent') };
  const request = received('GetMetadataAllocated', { snapshot_id: half.snapshotId });
  const context = { ...callContext(), ...patientTurn() };
  await rejectsWith(
    (async () => call?.(request, context, writer))(),
    'FAILED_PRECONDITION',
    /not ready to use/,
  );
});
