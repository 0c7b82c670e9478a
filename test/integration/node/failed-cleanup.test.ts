/** What a refused staging leaves: nothing, or what the log says, until the next staging or the next start. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { closeSync, existsSync, mkdirSync, openSync, readdirSync, writeFileSync, writeSync } from 'node:fs';
import { BackendRegistry } from '../../../src/driver/backends/registry.js';
import type { VolumeRecord } from '../../../src/driver/catalogue/records.js';
import { type ReconcileReport, reconcile } from '../../../src/driver/volumes/reconcile.js';
import { blockCapability, mountCapability } from '../../support/csi-client.js';
import { refused } from '../../support/refusal.js';
import { NOTHING, test } from '../../support/running-plugin.js';
import { retainedBasesOf } from '../../unit/volumes/manager-fixture.js';
import { SIZE, useNode } from './node-fixture.js';

const node = useNode('failed-cleanup');

/** An ext4 with a feature that no kernel knows. */
async function unmountable(): Promise<VolumeRecord> {
  const volume = await node.used(mountCapability('ext4'), SIZE);
  await node.stage(volume, blockCapability());
  const device = openSync(await node.attachedPath(volume), 'r+');
  writeSync(device, Buffer.of(0x40), 0, 1, 1024 + 0x5f);
  closeSync(device);
  await node.unstage(volume);
  return volume;
}

const refusal = (volume: VolumeRecord): Promise<string> =>
  refused(node.stage(volume, mountCapability('ext4')), 'FAILED_PRECONDITION', /0x40000000/);

/** Calls `look` with each device that the plugin attaches meanwhile, before the plugin goes on. */
async function whenAttached(look: (path: string) => void, work: () => Promise<unknown>): Promise<void> {
  const { native } = node;
  const run = native.run.bind(native) as (...call: unknown[]) => Promise<never>;
  native.run = (async (...call: unknown[]) => {
    const answer: { device: { path: string } } = await run(...call);
    if (call[0] === 'loopAttach') look(answer.device.path);
    return answer;
  }) as never;
  try {
    await work();
  } finally {
    native.run = run as never;
  }
}

/** Refuses the staging while a program has the device open. */
async function leftAttached(): Promise<{ volume: VolumeRecord; reader: number; path: string }> {
  const volume = await unmountable();
  const found = { volume, reader: -1, path: '' };
  const open = (path: string): void => {
    Object.assign(found, { path, reader: openSync(path, 'r') });
  };
  await whenAttached(open, () => refusal(volume));
  return found;
}

function start(): Promise<ReconcileReport> {
  const { catalogue, backend } = node;
  const registry = new BackendRegistry([backend]);
  return reconcile({ catalogue, registry, retainedBases: retainedBasesOf(catalogue, {}) });
}

test('a refused staging detaches a loop number whose node is still bound for its last user', async () => {
  const volume = await unmountable();
  const places: string[] = [];
  // As left from its last use: other plugins know by the volume's id that none of this is a use of theirs.
  const directory = node.workspace.path(volume.volumeId, 'bound');
  mkdirSync(directory, { recursive: true });
  let taken = '';
  try {
    // Somebody else may take the numbers that are bound first, and the plugin makes a new one.
    while (!places.some((place) => place.endsWith(`${taken}.node`)) || taken === '') {
      for (const name of readdirSync('/dev').filter((each) => /^loop\d+$/.test(each))) {
        const place = `${directory}/${name}.node`;
        if (places.includes(place)) continue;
        writeFileSync(place, '');
        try {
          execFileSync('mount', ['--bind', `/dev/${name}`, place], { stdio: 'pipe' });
        } catch (error) {
          // Its user may have given the number up since the listing.
          if (existsSync(`/dev/${name}`)) throw error;
          continue;
        }
        places.push(place);
      }
      await whenAttached(
        (path) => {
          taken = path.replace('/dev/', '/');
        },
        () => refusal(volume),
      );
      assert.deepEqual([node.held().loops, node.leftovers], [[], []]);
    }
  } finally {
    for (const place of places) execFileSync('umount', [place]);
  }
  assert.deepEqual(await node.catalogue.stagings(volume.volumeId), []);
});

test('a device that a program holds through a refused staging is named in the log, and the next staging releases it', async () => {
  const { volume, reader, path } = await leftAttached();
  try {
    const [line = {}] = node.leftovers.splice(0);
    assert.match(String(line.stays), new RegExp(`the device of volume ${volume.volumeId}`));
    assert.match(String(line.removedBy), /the next NodeStageVolume .*, or the next start/);
    assert.match((line.err as Error).message, new RegExp(path));
    assert.equal(node.held().loops.length, 1);
  } finally {
    closeSync(reader);
  }
  await refusal(volume);
  assert.deepEqual([node.held(), node.leftovers], [NOTHING, []]);
});

test('a device that a refused staging left attached is released by the next start, not while it is open', async () => {
  const { volume, reader } = await leftAttached();
  node.leftovers.length = 0;
  try {
    assert.deepEqual((await start()).finished, []);
    assert.equal(node.held().loops.length, 1);
  } finally {
    closeSync(reader);
  }
  const finished = [`release of the unused device of volume ${volume.volumeId}`];
  const { differences, ...report } = await start();
  assert.deepEqual({ ...report, differences }, { finished, undone: [], differences: [] });
  assert.deepEqual(node.held(), NOTHING);
  await node.unstage(volume);
});

test('a start leaves what is staged attached: mounted, raw, and what the plugin cannot see', async () => {
  const mounted = await node.staged(mountCapability('ext4'));
  const raw = await node.staged(blockCapability());
  const unseen = await node.staged(blockCapability());
  const device = node.workspace.path('staging', unseen.volumeId, 'device');
  execFileSync('umount', [device]);
  assert.deepEqual((await start()).finished, []);
  assert.equal(node.held().loops.length, 3);
  for (const volume of [mounted, raw, unseen]) await node.unstage(volume);
  assert.deepEqual(node.held(), NOTHING);
});
