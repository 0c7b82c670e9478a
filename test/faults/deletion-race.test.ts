/**
 * A deletion of a volume that is staged only, against the calls that use it: whoever comes first stands before a step
 * until the others have ended. No volume is deleted that is published, and none is published that is deleted. And the
 * volume of an orchestrator that dies in NodeUnstageVolume, which goes on without it.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { VolumeKind } from '../support/contents.js';
import { isNightly } from '../support/nightly.js';
import type { HeldVolume } from '../support/orchestrator.js';
import { statusOf } from '../support/refusal.js';
import { mountsBelow, skipUnlessRoot } from '../support/workspace.js';
import { Scene } from './scene.js';

type Call = (volume: HeldVolume) => Promise<unknown>;

const UNMOUNT = /^umount /;
/** Its one thread stands there, and a deletion asks it before it comes to the volume's lock. */
const HOLDS_CATALOGUE = /<state>\/catalogue/;

void test('a deletion and the uses of a volume exclude each other', {
  skip: skipUnlessRoot,
}, async (context) => {
  const scene = await Scene.make('deletion-race', 'xfs');
  const { orchestrator } = scene;
  const remove: Call = (volume) => orchestrator.delete(volume);
  const use: Call[] = [
    (volume) => orchestrator.publish(volume),
    (volume) => orchestrator.stage(volume),
    (volume) => orchestrator.stage({ ...volume, stagingPath: `${volume.stagingPath}-2` }),
  ];
  try {
    await scene.start();
    for (const kind of isNightly ? (['ext4', 'block'] as const) : (['ext4'] as const)) {
      await context.test(`${kind}: nothing uses a volume that is being deleted`, async () => {
        for (const step of await stepsOf(scene, kind, remove, UNMOUNT)) {
          const volume = await left(scene, kind);
          const answers = await heldAt(scene, step, () => remove(volume), use, volume);
          assert.deepEqual(answers, ['OK', 'ABORTED', 'ABORTED', 'ABORTED'], step);
          for (const call of use) assert.equal(await statusOf(call(volume)), 'NOT_FOUND');
          scene.objects.remove(volume.id);
          await scene.objects.check();
          await orchestrator.unstage(volume);
        }
      });
      await context.test(`${kind}: a volume that is being used is not deleted`, async () => {
        const publish = use[0] as Call;
        for (const step of await stepsOf(scene, kind, publish, /^move_mount /)) {
          const volume = await left(scene, kind);
          const held = (): Promise<unknown> => publish(volume);
          if (HOLDS_CATALOGUE.test(step)) {
            const [published, removed] = await begunAt(scene, step, held, () => remove(volume));
            assert.equal(published, 'OK', step);
            assert.ok(removed === 'ABORTED' || removed === 'FAILED_PRECONDITION', `${step}: ${removed}`);
          } else {
            assert.deepEqual(await heldAt(scene, step, held, [remove], volume), ['OK', 'ABORTED'], step);
          }
          assert.equal(await statusOf(remove(volume)), 'FAILED_PRECONDITION');
          await scene.removeAllBut([]);
        }
      });
    }
    await context.test('an unstaging goes on when its caller dies', async () => {
      const unstage: Call = (volume) => orchestrator.unstage(volume);
      for (const step of await stepsOf(scene, 'ext4', unstage, UNMOUNT)) {
        const volume = await left(scene, 'ext4');
        const caller = unstagingProcess(scene.workspace.path('plugin.sock'), volume);
        const ended = once(caller, 'exit');
        const until = async (): Promise<void> => {
          caller.kill('SIGKILL');
          await ended;
        };
        scene.steps.begin({ step, does: 'wait', until });
        await ended;
        assert.ok(scene.steps.isReached, step);
        while (mountsBelow(volume.stagingPath).length > 0) await delay(20);
        await scene.removeAllBut([]);
      }
    });
  } finally {
    await scene.dispose();
  }
});

/** Staged, and not published any more. */
async function left(scene: Scene, kind: VolumeKind): Promise<HeldVolume> {
  const volume = await scene.volume(kind);
  await scene.orchestrator.bringUp(volume);
  await scene.orchestrator.unpublish(volume);
  return volume;
}

/** Of the call: all in the nightly run, otherwise the first one of that name. */
async function stepsOf(scene: Scene, kind: VolumeKind, call: Call, name: RegExp): Promise<string[]> {
  const volume = await left(scene, kind);
  scene.steps.begin();
  await call(volume);
  const names = [...scene.steps.names];
  await scene.removeAllBut([]);
  const main = names.filter((each) => name.test(each)).slice(0, 1);
  assert.equal(main.length, 1, names.join('\n'));
  return isNightly ? names : main;
}

/** How the held call and the others end, which come while it stands before the step. */
async function heldAt(
  scene: Scene,
  step: string,
  held: () => Promise<unknown>,
  others: readonly Call[],
  volume: HeldVolume,
): Promise<string[]> {
  let answers: string[] = [];
  const until = async (): Promise<void> => {
    answers = await Promise.all(others.map((call) => statusOf(call(volume))));
  };
  scene.steps.begin({ step, does: 'wait', until });
  const first = await statusOf(held());
  assert.ok(scene.steps.isReached, `${step} has not come`);
  return [first, ...answers];
}

/** How the held call and another end, which begins while it stands before the step and ends when it goes on. */
async function begunAt(
  scene: Scene,
  step: string,
  held: () => Promise<unknown>,
  other: () => Promise<unknown>,
): Promise<string[]> {
  let answer: Promise<string> = Promise.resolve('has not begun');
  const until = async (): Promise<void> => {
    answer = statusOf(other());
    // The other call has come when this one is answered.
    await scene.client.identity.GetPluginInfo({});
  };
  scene.steps.begin({ step, does: 'wait', until });
  const first = await statusOf(held());
  assert.ok(scene.steps.isReached, `${step} has not come`);
  return [first, await answer];
}

const UNSTAGE = `
  const [module, endpoint, volume_id, staging_target_path] = process.argv.slice(1);
  const { CsiClient } = await import(module);
  await new CsiClient(endpoint).node.NodeUnstageVolume({ volume_id, staging_target_path });
`;

/** An orchestrator that does nothing but to unstage the volume. */
function unstagingProcess(socket: string, { id, stagingPath }: HeldVolume): ChildProcess {
  const client = new URL('../support/csi-client.js', import.meta.url).href;
  const args = [client, `unix://${socket}`, id, stagingPath];
  return spawn(process.execPath, ['--input-type=module', '-e', UNSTAGE, ...args], { stdio: 'inherit' });
}
