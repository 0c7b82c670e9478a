/** Links swapped and file systems stacked while volumes are constantly published and unpublished. */
import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, readlinkSync, symlinkSync } from 'node:fs';
import { blockCapability, mountCapability, useNode } from '../integration/node-fixture.js';
import { isNightly } from '../support/nightly.js';
import { test as rootTest } from '../support/running-plugin.js';
import { mountsBelow } from '../support/workspace.js';

const node = useNode('paths-races');
const { workspace } = node;

const ROUNDS = isNightly ? 400 : 40;

/** A script that runs until the test ends it. */
function inBackground(script: string, ...args: string[]): ChildProcess {
  return spawn('bash', ['-c', script, 'bash', ...args], { stdio: 'ignore' });
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null) return;
  const ended = once(child, 'close');
  child.kill('SIGKILL');
  await ended;
}

/** Whether it was done, or refused in so many words. */
async function done(call: Promise<unknown>): Promise<boolean> {
  return call.then(
    () => true,
    (thrown: { code?: unknown; message: string }) => {
      assert.ok([3, 9].includes(thrown.code as number), thrown.message);
      return false;
    },
  );
}

for (const [name, capability] of [
  ['mount', mountCapability()],
  ['block', blockCapability()],
] as const) {
  rootTest(`H8: constantly swapped links misdirect no mount and no removal, ${name}`, async (t) => {
    const [link, real, foreign] = ['link', 'real', 'foreign'].map((part) =>
      workspace.path(`${name}-${part}`),
    ) as [string, string, string];
    const kept = Array.from({ length: ROUNDS }, (_, round) => `target-${round}`);
    for (const directory of [real, foreign]) mkdirSync(directory);
    mkdirSync(`${foreign}/never`);
    symlinkSync(real, link);
    const volume = await node.makeVolume();
    await node.stage(volume, capability);
    const script =
      'while :; do ln -sfn "$2" "$1.new" && mv -T "$1.new" "$1"; ln -sfn "$3" "$1.new" && mv -T "$1.new" "$1"; done';
    const swapper = inBackground(script, link, real, foreign);
    t.after(() => end(swapper));
    let published = 0;
    for (const target of kept) {
      const target_path = `${link}/${target}`;
      if (!(await done(node.publish(volume, capability, { target_path })))) continue;
      published += 1;
      const [record] = await node.catalogue.publications(volume.volumeId);
      const place = record?.resolvedPath ?? '';
      const other = place.startsWith(real) ? foreign : real;
      // Of the same name, where the path leads every other moment.
      mkdirSync(`${other}/${target}`);
      assert.deepEqual(mountsBelow(place), [place], 'mounted where the record says');
      await node.unpublish(volume, { target_path });
      assert.equal(existsSync(place), false);
      assert.ok(existsSync(`${other}/${target}`), 'the other one stays');
    }
    assert.ok(published > 0);
    assert.ok(existsSync(`${foreign}/never`));
    assert.ok([real, foreign].includes(readlinkSync(link)));
    await node.unstage(volume);
    assert.deepEqual(node.held(), { mounts: [], loops: [] });
  });
}

rootTest('H8: a foreign file system stacked at any moment is never unmounted', async (t) => {
  const capability = mountCapability();
  const volume = await node.makeVolume();
  await node.stage(volume, capability);
  const target = node.targetPath(volume.volumeId);
  let stacked = 0;
  for (let round = 0; round < ROUNDS; round += 1) {
    await node.publish(volume, capability);
    const delayMs = (round % 10) * 2;
    const script = 'sleep "$2"; mount -t tmpfs foreign "$1" && touch "$1/precious"';
    const stacker = inBackground(script, target, String(delayMs / 1000));
    t.after(() => end(stacker));
    const [isReleased] = await Promise.all([done(node.unpublish(volume)), once(stacker, 'close')]);
    const foreign = execFileSync('findmnt', ['-rno', 'TARGET,FSTYPE'], { encoding: 'utf8' })
      .split('\n')
      .includes(`${target} tmpfs`);
    if (stacker.exitCode === 0) {
      assert.ok(foreign, `round ${round}: the foreign file system is gone`);
      assert.deepEqual(readdirSync(target), ['precious']);
      stacked += 1;
      execFileSync('umount', [target]);
    }
    if (!isReleased) await node.unpublish(volume);
    assert.deepEqual(mountsBelow(target), [], `round ${round}`);
  }
  console.log(`# stacked ${stacked} of ${ROUNDS} times`);
  await node.unstage(volume);
  assert.deepEqual(node.held(), { mounts: [], loops: [] });
});
