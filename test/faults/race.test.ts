/**
 * A request for a delta and a deletion that need the same list at the same time: whoever comes first stands before the
 * rename of the list until the other one has ended. The case behind it: a snapshot is taken and its backup begins, while
 * retention deletes an older one.
 */
import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { isNightly } from '../support/nightly.js';
import { skipUnlessRoot } from '../support/workspace.js';
import { Scene } from './scene.js';
import { SnapshotChain } from './snapshot-chain.js';

const RENAME = 'rename <pool>/lists/';
const ENV = { BLOCKDELTA_CHANGE_LISTS: 'on', BLOCKDELTA_RETAINED_BASES_COUNT: '4' };

for (const kind of isNightly ? (['xfs', 'btrfs'] as const) : (['xfs'] as const)) {
  test(`no base is lost on ${kind}`, { skip: skipUnlessRoot }, async (context) => {
    const scene = await Scene.make(`race-${kind}`, kind, ENV);
    try {
      await scene.start();
      const requests = {
        delta: (chain: SnapshotChain) => scene.client.delta(chain.at(0).id, chain.at(2).id),
        deletion: (chain: SnapshotChain) => scene.orchestrator.deleteSnapshot(chain.at(1).id),
      };
      await context.test('a request waits until a deletion has ended', () =>
        heldAtRename(scene, requests.delta, requests.deletion),
      );
      await context.test('a deletion waits until a request has ended', () =>
        heldAtRename(scene, requests.deletion, requests.delta),
      );
    } finally {
      await scene.dispose();
    }
  });
}

type Call = (chain: SnapshotChain) => Promise<unknown>;

/** Both may be refused, since one waits for the other no longer than callers do; a repeated call succeeds. */
async function heldAtRename(scene: Scene, held: Call, other: Call): Promise<void> {
  const step = await renameIn(scene, held);
  const chain = await retained(scene);
  scene.steps.begin({ step, does: 'wait', until: () => other(chain).then(ignore, ignore) });
  await held(chain).catch(ignore);
  assert.ok(scene.steps.isReached, step);
  await chain.retain(1);
  await chain.checkDeltas();
}

/** The step that gives a list its name. */
async function renameIn(scene: Scene, call: Call): Promise<string> {
  const chain = await retained(scene);
  scene.steps.begin();
  await call(chain);
  const step = scene.steps.names.find((name) => name.startsWith(RENAME));
  assert.ok(step !== undefined, scene.steps.names.join('\n'));
  await chain.retain(1);
  return step;
}

/** The first of three snapshots is deleted and retained, and there is no list from the second to the third. */
async function retained(scene: Scene): Promise<SnapshotChain> {
  const chain = await SnapshotChain.make(scene, 3);
  await chain.retain(0);
  await scene.stop();
  rmSync(join(scene.poolPath, 'lists', `${chain.at(1).id}.to.${chain.at(2).id}`));
  await scene.start();
  return chain;
}

const ignore = (): undefined => undefined;
