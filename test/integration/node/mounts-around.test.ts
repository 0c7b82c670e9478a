/**
 * A look that asks the kernel for single mounts sees what a look that reads mountinfo sees, through random mounts, moves,
 * renames and changes of mounts. The kernel has to have statmount(2) with everything that a look needs (Linux 6.15).
 */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import {
  type MountEntry,
  mountContaining,
  mountsAt,
  mountsOfDevice,
  mountsOfFileSystem,
} from '../../../src/base/system/mountinfo.js';
import { loadCalls } from '../../../src/driver/native/file-calls.js';
import { type Look, type LookRequest, lookCalls } from '../../../src/driver/native/look-calls.js';
import { attachLoop, detachLoopForSure } from '../../support/loops.js';
import { type Random, seededRandom } from '../../support/random.js';
import { skipUnlessRoot, Workspace } from '../../support/workspace.js';

const STEPS = 300;
const NAMES = ['plain', 'two words', 'tab\there', 'back\\slash', 'line\nbreak', 'hash#', 'ümlaut'];

let workspace: Workspace;
let device: string;

before(() => {
  if (skipUnlessRoot !== false) return;
  workspace = new Workspace('mounts-around');
  const image = workspace.path('image');
  execFileSync('truncate', ['-s', '120M', image]);
  execFileSync('mkfs.btrfs', ['-q', image]);
  device = attachLoop(image);
  for (const name of NAMES) mkdirSync(workspace.path('root', name, 'inner'), { recursive: true });
  execFileSync('mount', ['--bind', workspace.path('root'), workspace.path('root')]);
  execFileSync('mount', ['--make-private', workspace.path('root')]);
});

after(async () => {
  if (skipUnlessRoot !== false) return;
  // The whole tree goes with its root, and what is mounted over the root before it.
  while (spawnSync('umount', ['--lazy', workspace.path('root')]).status === 0);
  await detachLoopForSure(device);
  workspace.dispose();
});

test('a look by single mounts sees what mountinfo shows, whatever is mounted, moved, renamed or changed', {
  skip: skipUnlessRoot,
}, (t) => {
  const random = seededRandom('mounts around');
  const calls = loadCalls();
  const look = (request: LookRequest): Look => {
    const found = calls.look(request);
    assert.ok(found.ok, JSON.stringify(found));
    return found;
  };
  const plain = lookCalls(() => null).look;
  const kernels = calls.mountsAround({ paths: ['/'], devices: [] });
  if (kernels.ok && kernels.mounts === null) return t.skip('the kernel lacks statmount(2) as of Linux 6.15');
  let seen = 0;
  for (let step = 0; step < STEPS; step += 1) {
    const done = change(random);
    const paths = [...random.shuffled(places()).slice(0, 3), workspace.path('root', 'absent', 'deeper')];
    const request = { paths, guarded: null, devicePath: device };
    const [found, expected] = [look(request), plain(request)].map((each) => decisions(each, paths));
    assert.deepEqual(found, expected, `after step ${step}: ${done}`);
    seen += expected?.ofDevice.length ?? 0;
  }
  assert.ok(seen > STEPS / 10, `the device was mounted ${seen} times only`);
});

/** Everything that calls of the Node service read from a look. */
function decisions({ mounts, paths, node }: Look, asked: readonly string[]) {
  assert.ok(node !== null);
  const inside = asked.filter((path) => mountsAt(mounts, path).length === 0).map((path) => join(path, 'device'));
  return {
    layers: [...asked, ...inside].map((path) => mountsAt(mounts, path)),
    around: asked.map((path) => mountContaining(mounts, dirname(path))),
    ofDevice: mountsOfDevice(mounts, node.rdev),
    nodes: mountsOfFileSystem(mounts, node.dev).filter((entry: MountEntry) => entry.root.endsWith(device.slice(5))),
    paths,
  };
}

function places(): string[] {
  const root = workspace.path('root');
  return readdirSync(root).flatMap((name) => [
    join(root, name),
    join(root, name, 'inner'),
    join(root, name, 'inner', 'device'),
  ]);
}

/** One random change; most of them succeed. Returns what it was. */
function change(random: Random): string {
  const [from, to] = [random.pick(places()), random.pick(places())];
  const step = random.pick([
    ['mount', '-t', 'btrfs', '-o', random.pick(['rw', 'ro', 'noatime', 'strictatime,nosuid']), device, to],
    [
      'mount',
      '-t',
      'tmpfs',
      '-o',
      random.pick(['size=1m', 'nodev,noexec', 'ro', 'sync']),
      random.pick(['a b', 'none']),
      to,
    ],
    ['mount', '--bind', from, to],
    ['mount', '--bind', device, to],
    ['mount', '--move', from, to],
    ['mount', '-o', `remount,bind,${random.pick(['ro', 'rw', 'nosymfollow', 'nodiratime'])}`, to],
    ['remount', random.pick(['ro', 'rw', 'lazytime']), to],
    ['mount', `--make-${random.pick(['shared', 'slave', 'private', 'unbindable'])}`, to],
    ['umount', to],
    ['umount', '-l', to],
    ['rename', from, to],
    ['make', to],
  ]);
  const [program = '', ...args] = step;
  try {
    if (program === 'remount') remountOwn(...args);
    else if (program === 'rename') renameSync(from, `${from}-${random.below(10)}`);
    else if (program === 'make' && statSync(dirname(to)).isDirectory()) {
      mkdirSync(join(dirname(to), 'inner'), { recursive: true });
      writeFileSync(join(dirname(to), 'inner', 'device'), '');
    } else if (program.endsWith('mount')) spawnSync(program, args);
  } catch {
    // A file system that is read-only, or a path in use.
  }
  return step.join(' ');
}

/** Remounts a file system of the test's own. A remount of a bound directory or device node would change the host's. */
function remountOwn(option = '', path = ''): void {
  const types = 'tmpfs,btrfs';
  const found = spawnSync('findmnt', ['-n', '-o', 'FSTYPE', '-t', types, '--mountpoint', path], { encoding: 'utf8' });
  if (found.stdout.trim() !== '') spawnSync('mount', ['-o', `remount,${option}`, path]);
}
