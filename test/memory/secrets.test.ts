/** Secrets and mount flags are accepted, and never appear in the log or in an error. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  blockCapability,
  type CsiClient,
  type Message,
  mountCapability,
} from '../support/csi-client.js';
import { runMemoryPlugin } from '../support/memory-plugin.js';
import { createRequest, type HeldVolume, MIB } from '../support/orchestrator.js';
import { statusOf } from '../support/refusal.js';

const SECRETS = { 'canary-key.one': 'canary-value-1', canary_key_two: 'canary-value-\n"2"' };
/** Keys that are not allowed: what is wrong with them may be said, they themselves may not. */
const BAD_SECRETS = { 'canary bad key': 'canary-value-3' };
const CANARY = /canary/;

const running = runMemoryPlugin('secrets', {
  pools: ['main'],
  env: { BLOCKDELTA_LOG_LEVEL: 'trace' },
});
const { orchestrator } = running;
const errors: string[] = [];

/** The status of a call; the text of an error is recorded and searched later. */
async function status(call: Promise<unknown>): Promise<string> {
  call.catch((thrown: Error) => errors.push(thrown.message));
  return statusOf(call);
}

async function volumeAndSnapshot(): Promise<{ volume: HeldVolume; snapshotId: string }> {
  const volume = await orchestrator.create('kept');
  return { volume, snapshotId: await orchestrator.snapshot(volume, 'kept') };
}

/** Every RPC that takes secrets, with a request that succeeds. */
async function calls(): Promise<Readonly<Record<string, (extra: Message) => Promise<unknown>>>> {
  const { volume, snapshotId } = await volumeAndSnapshot();
  const volume_capabilities = [blockCapability()];
  const client: CsiClient = running.client;
  const { controller } = client;
  return {
    CreateVolume: (extra) => controller.CreateVolume({ ...createRequest('secret'), ...extra }),
    ValidateVolumeCapabilities: (extra) =>
      controller.ValidateVolumeCapabilities({
        volume_id: volume.id,
        volume_capabilities,
        ...extra,
      }),
    CreateSnapshot: (extra) =>
      controller.CreateSnapshot({ source_volume_id: volume.id, name: 'secret', ...extra }),
    ListSnapshots: (extra) => controller.ListSnapshots(extra),
    GetMetadataAllocated: (extra) => client.allocated(snapshotId, extra),
    DeleteVolume: (extra) => controller.DeleteVolume({ volume_id: 'none', ...extra }),
    DeleteSnapshot: (extra) => controller.DeleteSnapshot({ snapshot_id: 'none', ...extra }),
  };
}

test('secrets of every RPC outside the Node service are accepted, known or not', async () => {
  for (const [rpc, call] of Object.entries(await calls())) {
    assert.equal(await status(call({ secrets: SECRETS })), 'OK', rpc);
  }
});

test('secrets with keys that CSI bans, and too large ones, are INVALID_ARGUMENT', async () => {
  const large = { canary: 'canary'.repeat(1000) };
  for (const secrets of [BAD_SECRETS, large]) {
    for (const [rpc, call] of Object.entries(await calls())) {
      assert.equal(await status(call({ secrets })), 'INVALID_ARGUMENT', rpc);
    }
  }
});

test('secrets may come with requests that fail', async () => {
  const { controller } = running.client;
  const secrets = SECRETS;
  const failing = {
    INVALID_ARGUMENT: status(controller.CreateVolume({ secrets })),
    NOT_FOUND: status(controller.CreateSnapshot({ source_volume_id: 'x', name: 'x', secrets })),
    OUT_OF_RANGE: status(
      controller.CreateVolume({ ...createRequest('large', { sizeBytes: 2 ** 50 }), secrets }),
    ),
  };
  for (const [wanted, found] of Object.entries(failing)) assert.equal(await found, wanted);
});

test('mount flags are as sensitive as secrets', async () => {
  const capability = {
    mount: { fs_type: 'ext4', mount_flags: ['password=canary-flag'] },
    access_mode: { mode: 'SINGLE_NODE_WRITER' },
  };
  const spec = { capability, sizeBytes: 16 * MIB };
  // Not one of the listed options: what is said about it must not name the flag.
  assert.equal(await status(orchestrator.create('flags', spec)), 'INVALID_ARGUMENT');
  const volume = await orchestrator.create('flags', { ...spec, capability: mountCapability() });
  assert.equal(await status(orchestrator.stage({ ...volume, capability })), 'INVALID_ARGUMENT');
  await orchestrator.delete(volume);
});

test('E9: none of them appears in an error or in the log, even at the most verbose level', async () => {
  await running.client.identity.Probe({});
  const { log } = running;
  assert.match(log, /CreateVolume/, 'calls are logged at this level');
  const [line] = log.split('\n').filter((text) => CANARY.test(text));
  assert.equal(line, undefined);
  assert.deepEqual(
    errors.filter((message) => CANARY.test(message)),
    [],
  );
  assert.ok(errors.length > 0);
});
