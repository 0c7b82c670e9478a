/** Health from the RPCs of CSI 1.13, in a form that is easy to compare. */
import assert from 'node:assert/strict';
import { setTimeout as delay } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { CsiClient, Message } from './csi-client.js';

/** `STATUS Reason` of each condition of a volume, in the order given. */
export function told(health: Message): string[] {
  return health['health_statuses'].map(
    ({ status, reason }: Message) => `${String(status)} ${String(reason)}`,
  );
}

export async function controllerHealth(client: CsiClient, volume_id: string): Promise<string[]> {
  const answer = await client.controller.ControllerGetVolumeHealth({ volume_id });
  return told(answer['volume_health']);
}

export async function nodeHealth(client: CsiClient, volume_id: string): Promise<string[]> {
  const answer = await client.node.NodeGetVolumeHealth({ volume_id });
  return told(answer['volume_health']);
}

/** `STATUS Reason` of each condition of a pool. */
export async function storageHealth(client: CsiClient): Promise<string[]> {
  const { backend_health } = await client.node.NodeGetStorageHealth({});
  return backend_health.map(({ status, reason }: Message) => `${String(status)} ${String(reason)}`);
}

/** Repeats the call until the answer is as expected; for observations that the kernel delays. */
export async function settled<T>(ask: () => Promise<T>, expected: T): Promise<void> {
  const deadline = Date.now() + 15_000;
  let answer = await ask();
  while (!isDeepStrictEqual(answer, expected) && Date.now() < deadline) {
    await delay(20);
    answer = await ask();
  }
  assert.deepEqual(answer, expected);
}
