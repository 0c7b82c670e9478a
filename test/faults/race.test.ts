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
import { History } from './history.js';
import { Scene } from './scene.js';

const RENAME = 'rename <pool>/lists/';
const ENV = { BLOCKDELTA_CHANGE_LISTS: 'on', BLOCKDELTA_RETAINED_BASES_COUNT: '4' };

for (const kind of isNightly ? (['xfs', 'btrfs'] as const) : (['xfs'] as const)) {
  test(`no base is lost on ${kind}`, { skip: skipUnlessRoot }, async (context) => {
    const scene = await Scene.make(`race-${kind}`, kind, ENV);
    try {
      await scene.start();
      const requests = {
        delta: (history: History) => scene.client.delta(...ends(history)),
        deletion: ({ snapshots }: History) => scene.orchestrator.deleteSnapshot(snapshots[1] ?? ''),
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

type Call = (history: History) => Promise<unknown>;

/** Both may be refused, since one waits for the other no longer than callers do; a repeated call succeeds. */
async function heldAtRename(scene: Scene, held: Call, other: Call): Promise<void> {
  const step = await renameIn(scene, held);
  const history = await retained(scene);
  scene.steps.begin({ step, does: 'wait', until: () => other(history).then(ignore, ignore) });
  await held(history).catch(ignore);
  assert.ok(scene.steps.isReached, step);
  await history.retain(1);
  await history.checkDeltas();
}

/** The step that gives a list its name. */
async function renameIn(scene: Scene, call: Call): Promise<string> {
  const history = await retained(scene);
  scene.steps.begin();
  await call(history);
  const step = scene.steps.names.find((name) => name.startsWith(RENAME));
  assert.ok(step !== undefined, scene.steps.names.join('\n'));
  await history.retain(1);
  return step;
}

/** The first of three snapshots is deleted and retained, and there is no list from the second to the third. */
async function retained(scene: Scene): Promise<History> {
  const history = await History.make(scene, 3);
  await history.retain(0);
  await scene.stop();
  const [, second, third] = history.snapshots;
  rmSync(join(scene.poolPath, 'lists', `${second}.to.${third}`));
  await scene.start();
  return history;
}

function ends({ snapshots }: History): [base: string, target: string] {
  return [snapshots[0] ?? '', snapshots[2] ?? ''];
}

const ignore = (): undefined => undefined;
