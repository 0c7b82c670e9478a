/**
 * How much space each object of a pool holds alone: what its removal gives back. Deleting two objects that share blocks
 * gives back more than the sum.
 *
 * Reads every map of the pool, so that it takes a while. Changes nothing, and does not know why an object is held.
 */
import { realpath } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { CsiError, messageOf } from '../../base/errors.js';
import { ledgerContents } from '../backends/thin/ledger/ledger-contents.js';
import { onThisThread } from '../native/this-thread.js';
import { dmDevice, type NodeView, type PoolView } from './node-view.js';
import { ThinTrees } from './thin-trees.js';

/** By the id of the object; only objects that their pool holds. @throws CsiError naming a pool that cannot be read */
export async function exclusiveSpace({ views }: NodeView): Promise<Map<string, bigint>> {
  const found = new Map<string, bigint>();
  for (const view of views) {
    if (view.problem !== null) continue;
    try {
      const held = view.thin === null ? await ofFiles(view) : await ofThinDevices(view.directory, view.thin.names.pool);
      for (const [id, bytes] of held) found.set(id, bytes);
    } catch (thrown) {
      throw CsiError.failedPrecondition(
        `what each object of pool '${view.name}' holds alone cannot be read: ${messageOf(thrown)}; ` +
          'without --exclusive, the list needs no maps',
        { cause: thrown },
      );
    }
  }
  return found;
}

async function ofFiles({ volumes, snapshots }: PoolView): Promise<Map<string, bigint>> {
  const found = new Map<string, bigint>();
  for (const { id, path } of [...volumes, ...snapshots]) {
    if (path === null) continue;
    const state = await onThisThread.run('fileState', { path });
    // A running plugin may have removed the file since the pool was listed.
    if (state.state !== null) found.set(id, (await onThisThread.run('countExclusiveBytes', { path })).bytes);
  }
  return found;
}

async function ofThinDevices(directory: string, poolDevice: string): Promise<Map<string, bigint>> {
  const { pool, devices } = await ledgerContents(join(directory, 'pool.sqlite'));
  const trees = await ThinTrees.open(onThisThread, await metadataDevice(poolDevice), false);
  const objectIds = new Map(devices.map(({ deviceId, objectId }) => [deviceId, objectId]));
  const found = new Map<string, bigint>();
  for (const { deviceId, exclusiveBlocks } of await trees.exclusiveBlocks()) {
    const id = objectIds.get(deviceId);
    if (id !== undefined) found.set(id, exclusiveBlocks * pool.dataBlockBytes);
  }
  return found;
}

/** The node of the metadata device, which the pool's table names first, by its number. */
async function metadataDevice(poolDevice: string): Promise<string> {
  const table = (await dmDevice(poolDevice))?.targets[0]?.table;
  if (table === undefined) throw new Error(`its device ${poolDevice} is gone`);
  const [number = ''] = table.split(' ');
  return join('/dev', basename(await realpath(join('/sys/dev/block', number))));
}
