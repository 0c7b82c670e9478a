/**
 * Paths that a confused or hostile client names, and what kubelet, its host and others do to them meanwhile: nothing
 * foreign is deleted, hidden, followed or unmounted.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readlinkSync,
  rmSync,
  statfsSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import type { TestContext } from 'node:test';
import { growStaged } from '../../src/driver/node/growth.js';
import { lookAround, type PathField, usablePath } from '../../src/driver/node/paths.js';
import { useNode } from '../integration/node/node-fixture.js';
import { callContext } from '../support/call-context.js';
import { blockCapability, mountCapability } from '../support/csi-client.js';
import { mount } from '../support/mounts.js';
import { isNightly } from '../support/nightly.js';
import { mountOf } from '../support/records.js';
import { refused } from '../support/refusal.js';
import { NOTHING, test } from '../support/running-plugin.js';
import { mountsBelow } from '../support/workspace.js';

const ROUNDS = isNightly ? 400 : 20;
const UNKNOWN = ['none-exist-id', 'vol-562f2833d589-00000000-0000-4000-8000-000000000000'] as const;
const RELEASE = [
  ['NodeUnpublishVolume', 'target_path'],
  ['NodeUnstageVolume', 'staging_target_path'],
] as const;
const MOUNT = mountCapability();

const node = useNode('paths');
const { workspace } = node;
const pool = workspace.path('xfs.pool');

const umount = (...paths: string[]): void => {
  for (const path of paths) execFileSync('umount', [path]);
};
function mountOver(path: string, ...how: string[]): void {
  mkdirSync(path, { recursive: true });
  execFileSync('mount', [...how, path]);
}
const assertNothingHeld = (): void => assert.deepEqual(node.held(), NOTHING);

/** A test of volumes of both kinds, each of which leaves nothing in use. */
function testKinds(
  title: string,
  work: (capability: typeof MOUNT, kind: string, t: TestContext) => Promise<void>,
): void {
  for (const [kind, capability] of Object.entries({ mount: MOUNT, block: blockCapability() })) {
    test(`${title}, ${kind}`, async (t) => {
      await work(capability, kind, t);
      assertNothingHeld();
    });
  }
}

test('NU3, NQ4, H6: an unknown id deletes nothing, not even an empty file or directory', async () => {
  const [file, directory] = [workspace.path('cron.deny'), workspace.path('empty')];
  const staging = node.stagingPath('unknown');
  mkdirSync(directory);
  for (const path of [file, `${staging}/device`]) writeFileSync(path, '');
  for (const [rpc, field] of RELEASE) {
    for (const volume_id of UNKNOWN) {
      for (const path of [file, directory, staging, `${staging}/device`]) {
        // Whatever the answer is.
        await node.call(rpc, { volume_id, [field]: path }).catch(() => undefined);
        for (const kept of [file, directory, `${staging}/device`]) {
          assert.ok(existsSync(kept), `${rpc} of ${volume_id} with ${path} deleted ${kept}`);
        }
      }
    }
  }
});

test('H6: an id deletes nothing unless a record or a mount proves that it belongs to the volume', async () => {
  const volume = await node.makeVolume();
  const [file, directory] = [workspace.path('file'), workspace.path('directory')];
  const staging = node.stagingPath('other');
  mkdirSync(directory);
  for (const path of [file, `${staging}/device`]) writeFileSync(path, '');
  await node.stage(volume, MOUNT);
  for (const path of [file, directory]) await node.unpublish(volume, { target_path: path });
  await node.unstage(volume, { staging_target_path: staging });
  for (const kept of [file, directory, `${staging}/device`]) assert.ok(existsSync(kept), kept);
  // What a failed publication found there is not its own either.
  const onFile = node.publish(volume, MOUNT, { target_path: file });
  await refused(onFile, 'FAILED_PRECONDITION', /is not a directory/);
  await node.unpublish(volume, { target_path: file });
  assert.ok(existsSync(file));
  await node.unstage(volume);
});

test('H6: marks and directories of the pool stay, whatever request names them', async () => {
  const volume = await node.used(blockCapability());
  const mark = `${pool}/initialized/${volume.volumeId}`;
  const before = readdirSync(pool);
  for (const [rpc, field] of RELEASE) {
    for (const volume_id of [volume.volumeId, ...UNKNOWN]) {
      for (const path of [mark, `${pool}/snapshots`, `${pool}/volumes`]) {
        const answer = node.call(rpc, { volume_id, [field]: path });
        await refused(answer, 'INVALID_ARGUMENT', new RegExp(`^${field} ${path} `));
      }
    }
  }
  assert.ok(existsSync(mark));
  assert.deepEqual(readdirSync(pool), before);
});

/** Names that are not there: were they not refused, still nothing would happen to the machine. */
const SYSTEM = ['/etc', '/usr/lib', '/boot', '/dev', '/proc', '/sys/fs', '/lib'].map(
  (directory) => `${directory}/blockdelta-no-such-directory/x`,
);

test('NS2, H6: directories of the system and of the plugin are refused, and the error names the field', async () => {
  const volume = await node.makeVolume();
  const { volumeId: volume_id } = volume;
  const [state, socket] = [workspace.path('state'), workspace.path('socket')];
  for (const path of [`${state}/pools`, socket]) mkdirSync(path, { recursive: true });
  const own = [state, `${state}/pools`, `${state}/new`, socket, workspace.directory];
  for (const path of [...SYSTEM, ...own]) {
    const [staging, target] = [{ staging_target_path: path }, { target_path: path }];
    for (const [field, call] of [
      ['staging_target_path', () => node.stage(volume, MOUNT, staging)],
      ['target_path', () => node.publish(volume, MOUNT, target)],
      ['staging_target_path', () => node.publish(volume, MOUNT, staging)],
      ['target_path', () => node.unpublish(volume, target)],
      ['staging_target_path', () => node.unstage(volume, staging)],
    ] as const) {
      await refused(call(), 'INVALID_ARGUMENT', new RegExp(`^${field} ${path} cannot be used`));
    }
    for (const rpc of ['NodeGetVolumeStats', 'NodeExpandVolume'] as const) {
      await refused(node.call(rpc, { volume_id, volume_path: path }), 'NOT_FOUND');
    }
  }
  assertNothingHeld();
});

test("H7: staging over the pool's volumes is refused, by whichever path they are named", async () => {
  const volume = await node.makeVolume();
  const [link, bound, inner] = ['link', 'bound', 'inner'].map((name) => workspace.path(name)) as [
    ...[string, string, string],
  ];
  symlinkSync(pool, link);
  mountOver(bound, '--bind', pool);
  mountOver(inner, '--bind', `${pool}/volumes`);
  try {
    for (const path of [
      `${pool}/volumes`,
      `${link}/volumes`,
      `${bound}/volumes`,
      inner,
      bound,
      `${workspace.directory}/inner/./../bound/volumes`,
    ]) {
      const stage = node.stage(volume, MOUNT, { staging_target_path: path });
      await refused(stage, 'INVALID_ARGUMENT', /^staging_target_path /);
      const publish = node.publish(volume, MOUNT, { target_path: path });
      await refused(publish, 'INVALID_ARGUMENT', /^target_path /);
    }
  } finally {
    umount(inner, bound);
  }
  const next = await node.makeVolume();
  assert.ok(existsSync(`${pool}/volumes/${next.volumeId}`));
  assertNothingHeld();
});

test('a directory that the configuration names through a link is protected at its real path', async () => {
  const linked = (name: string): { link: string; real: string } => {
    const [link, real] = [workspace.path(`linked-${name}`), workspace.path(`real-${name}`)];
    mkdirSync(`${real}/inner`, { recursive: true });
    symlinkSync(real, link);
    return { link, real };
  };
  const [data, state, socket] = [linked('pool'), linked('state'), linked('socket')];
  const config = {
    ...node.deps.config,
    stateDirectory: state.link,
    pools: [{ kind: 'reflink' as const, name: 'linked', directory: data.link, place: 'any' as const }],
    socketPath: `${socket.link}/csi.sock`,
  };
  const resolve = async (path: string): Promise<string | null> => {
    const deps = { config, native: node.native };
    return usablePath(deps, await lookAround(deps, path), path, 'target_path');
  };
  for (const path of [data.real, `${data.real}/inner`, `${state.real}/inner`, socket.real]) {
    await assert.rejects(resolve(path), /^CsiError: target_path .* cannot be used/, path);
  }
  assert.equal(await resolve(`${socket.real}/inner`), `${socket.real}/inner`);
});

test('H7: the directory in which interfaces before v1 stage is refused as a target, and accepted for their stagings', async () => {
  const { legacyStagingDirectory } = node.deps.config;
  mkdirSync(legacyStagingDirectory, { recursive: true });
  const path = `${legacyStagingDirectory}/pod`;
  const resolve = async (field: PathField): Promise<string | null> =>
    usablePath(node.deps, await lookAround(node.deps, path), path, field);
  await refused(resolve('target_path'), 'INVALID_ARGUMENT', /it lies in/);
  assert.equal(await resolve('staging_target_path'), path);
});

test('H7: a path inside a volume is refused, because tenants control its content', async () => {
  const [outer, volume] = [await node.makeVolume(), await node.makeVolume()];
  await node.stage(outer, MOUNT);
  const inside = node.stagingPath(outer.volumeId);
  mkdirSync(`${inside}/staging`);
  symlinkSync(workspace.path('pods'), `${inside}/link`);
  const stage = node.stage(volume, MOUNT, { staging_target_path: `${inside}/staging` });
  await refused(stage, 'INVALID_ARGUMENT', /inside volume/);
  await node.stage(volume, MOUNT);
  const publish = node.publish(volume, MOUNT, { target_path: `${inside}/target` });
  await refused(publish, 'INVALID_ARGUMENT', /inside/);
  assert.equal(existsSync(`${inside}/target`), false);
  for (const one of [volume, outer]) await node.unstage(one);
});

testKinds('H8: a link swapped into a parent directory does not redirect any call', async (capability, kind) => {
  const volume = await node.makeVolume();
  const [link, real, foreign] = linkTo(`swap-${kind}`);
  for (const directory of [real, foreign]) mkdirSync(`${directory}/staging`);
  const [staging_target_path, target_path] = [`${link}/staging`, `${link}/target`];
  await node.stage(volume, capability, { staging_target_path });
  await node.publish(volume, capability, { staging_target_path, target_path });
  mkdirSync(`${foreign}/target`);
  rmSync(link);
  symlinkSync(foreign, link);
  for (const call of [
    () => node.publish(volume, capability, { staging_target_path, target_path }),
    () => node.stage(volume, capability, { staging_target_path }),
  ]) {
    await refused(call(), 'FAILED_PRECONDITION', /leads to .*swap-.*-foreign.* now/);
  }
  await node.unpublish(volume, { target_path });
  assert.ok(lstatSync(`${foreign}/target`).isDirectory(), 'the foreign directory stays');
  assert.equal(existsSync(`${real}/target`), false);
  await node.unstage(volume, { staging_target_path });
  assert.deepEqual(readdirSync(`${real}/staging`), []);
});

/** A link to a directory, that directory, and another one. */
function linkTo(name: string): [string, string, string] {
  const [link, real, foreign] = ['link', 'real', 'foreign'].map((part) => workspace.path(`${name}-${part}`)) as [
    string,
    string,
    string,
  ];
  for (const directory of [real, foreign]) mkdirSync(directory);
  symlinkSync(real, link);
  return [link, real, foreign];
}

testKinds('H8: a mount that moved with its renamed parent is reported, not forgotten', async (capability, kind) => {
  const volume = await node.makeVolume();
  const [parent, moved] = [workspace.path(`parent-${kind}`), workspace.path(`moved-${kind}`)];
  const target_path = `${parent}/target`;
  mkdirSync(parent);
  await node.stage(volume, capability);
  await node.publish(volume, capability, { target_path });
  execFileSync('mv', [parent, moved]);
  mkdirSync(target_path, { recursive: true });
  const answer = node.unpublish(volume, { target_path });
  await refused(answer, 'FAILED_PRECONDITION', new RegExp(`${moved}/target; nothing was`));
  assert.ok(existsSync(target_path), 'it has the name of a target of ours, and is another one');
  umount(`${moved}/target`);
  await node.cleared(volume, target_path);
});

test('H8: a foreign file system stacked on a target or a staging directory keeps its data', async () => {
  const volume = await node.staged();
  await node.publish(volume, MOUNT);
  for (const [path, release] of [
    [node.targetPath(volume.volumeId), () => node.unpublish(volume)],
    [node.stagingPath(volume.volumeId), () => node.unstage(volume)],
  ] as const) {
    mountOver(path, '-t', 'tmpfs', 'stacked');
    writeFileSync(`${path}/precious`, 'data');
    const before = node.held();
    const stacked = /something else mounted on it \(stacked\)/;
    await refused(release(), 'FAILED_PRECONDITION', stacked);
    assert.deepEqual(node.held(), before);
    assert.deepEqual(readdirSync(path), ['precious']);
    umount(path);
    await release();
  }
  assertNothingHeld();
});

/** A directory bound to itself, as its host shares it. */
function shareTwice(host: string): string {
  const kubelet = `${host}/kubelet`;
  mountOver(host, '-t', 'tmpfs', 'host');
  execFileSync('mount', ['--make-shared', host]);
  mountOver(kubelet, '--bind', kubelet);
  execFileSync('mount', ['--make-shared', kubelet]);
  mkdirSync(`${kubelet}/staging`);
  return kubelet;
}

test('an ext4 staged below a directory shared twice can be grown unmounted', async () => {
  const host = workspace.path('host-growth');
  const kubelet = shareTwice(host);
  const directory = `${kubelet}/staging`;
  const volume = await node.makeVolume();
  await node.stage(volume, mountCapability('ext4'), { staging_target_path: directory });
  const before = statfsSync(directory).blocks;
  await node.enlarge(volume, 2n * volume.sizeBytes);
  const attachment = await node.backend.attachments.attach(volume.volumeId, { readOnly: false });
  const capability = mountOf('ext4');
  assert.ok(capability.accessType === 'mount');
  const context = callContext({ note: (fields) => assert.fail(JSON.stringify(fields)) });
  const staging = { volume, attachment, capability, directory, context };
  const source = attachment.devicePath;
  // A kernel that grows this ext4 only while it is not mounted.
  node.failing = { method: 'growFileSystem', code: 'EOPNOTSUPP' };
  await growStaged(node.deps, staging, 'ext4', () => mount({ source, target: directory, fsType: 'ext4', options: [] }));
  node.failing = null;
  assert.ok(statfsSync(directory).blocks > (before * 3) / 2);
  await node.unstage(volume, { staging_target_path: directory });
  umount(kubelet, host);
  assertNothingHeld();
});

testKinds(
  'a directory bound to itself and shared shows every mount twice, and works like any other',
  async (capability, kind) => {
    const host = workspace.path(`host-${kind}`);
    const kubelet = shareTwice(host);
    const [staging_target_path, target_path] = [`${kubelet}/staging`, `${kubelet}/target`];
    const volume = await node.makeVolume();
    for (let round = 0; round < 2; round += 1) {
      await node.stage(volume, capability, { staging_target_path });
      await node.publish(volume, capability, { staging_target_path, target_path });
    }
    await node.unpublish(volume, { target_path });
    assert.equal(existsSync(target_path), false);
    await node.unstage(volume, { staging_target_path });
    assert.deepEqual(node.held(), { mounts: [host, kubelet], loops: [] });
    umount(kubelet, host);
  },
);

testKinds('a target that another mount hides is reported and released later', async (capability, kind) => {
  const volume = await node.makeVolume();
  const pod = workspace.path(`pod-${kind}`);
  const target_path = `${pod}/target`;
  mkdirSync(pod);
  await node.stage(volume, capability);
  await node.publish(volume, capability, { target_path });
  const before = node.held();
  mountOver(pod, '-t', 'tmpfs', 'cover');
  for (const [call, message] of [
    [() => node.unpublish(volume, { target_path }), /another mount hides it/],
    [() => node.publish(volume, capability, { target_path: `${pod}-2` }), /is published at .* already/],
    [() => node.unstage(volume), /is still published at/],
  ] as const) {
    await refused(call(), 'FAILED_PRECONDITION', message);
  }
  umount(pod);
  assert.deepEqual(node.held(), before);
  await node.cleared(volume, target_path);
});

testKinds('an interrupted unpublish completes although another pod has binds of its own', async (capability, kind) => {
  const shared = { ...capability, access_mode: { mode: 'SINGLE_NODE_MULTI_WRITER' } };
  const volume = await node.makeVolume();
  const [first, second] = [node.targetPath(`${kind}-1`), node.targetPath(`${kind}-2`)];
  const bound = workspace.path(`subpath-${kind}`);
  await node.stage(volume, shared);
  for (const target_path of [first, second]) await node.publish(volume, shared, { target_path });
  if (kind === 'mount') mkdirSync(bound);
  else writeFileSync(bound, '');
  execFileSync('mount', ['--bind', second, bound]);
  // What a kill leaves: unmounted, and still on record.
  umount(first);
  await node.unpublish(volume, { target_path: first });
  assert.equal(existsSync(first), false);
  assert.equal((await node.catalogue.volumeUses('', first)).there, null);
  umount(bound);
  await node.cleared(volume, second);
});

/** A script that runs until it ends or the test does. */
function inBackground(t: TestContext, script: string, ...args: string[]): ChildProcess {
  const child = spawn('bash', ['-c', script, 'bash', ...args], { stdio: 'ignore' });
  const ended = once(child, 'close');
  t.after(() => {
    child.kill('SIGKILL');
    return ended;
  });
  return child;
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

testKinds('H8: constantly swapped links misdirect no mount and no removal', async (capability, kind, t) => {
  const [link, real, foreign] = linkTo(`race-${kind}`);
  mkdirSync(`${foreign}/never`);
  const volume = await node.staged(capability);
  const script =
    'while :; do ln -sfn "$2" "$1.new" && mv -T "$1.new" "$1"; ln -sfn "$3" "$1.new" && mv -T "$1.new" "$1"; done';
  inBackground(t, script, link, real, foreign);
  let published = 0;
  for (let round = 0; round < ROUNDS; round += 1) {
    const target_path = `${link}/target-${round}`;
    if (!(await done(node.publish(volume, capability, { target_path })))) continue;
    published += 1;
    const [record] = await node.catalogue.publications(volume.volumeId);
    const place = record?.resolvedPath ?? '';
    // Of the same name, where the path leads every other moment.
    const other = `${place.startsWith(real) ? foreign : real}/target-${round}`;
    mkdirSync(other);
    assert.deepEqual(mountsBelow(place), [place], 'mounted where the record says');
    await node.unpublish(volume, { target_path });
    assert.equal(existsSync(place), false);
    assert.ok(existsSync(other), 'the other one stays');
  }
  assert.ok(published > 0);
  assert.ok(existsSync(`${foreign}/never`));
  assert.ok([real, foreign].includes(readlinkSync(link)));
  await node.unstage(volume);
});

test('H8: a foreign file system stacked at any moment is never unmounted', async (t) => {
  const volume = await node.staged();
  const target = node.targetPath(volume.volumeId);
  let stacked = 0;
  for (let round = 0; round < ROUNDS; round += 1) {
    await node.publish(volume, MOUNT);
    const script = 'sleep "$2"; mount -t tmpfs foreign "$1" && touch "$1/precious"';
    const stacker = inBackground(t, script, target, String(((round % 10) * 2) / 1000));
    const [isReleased] = await Promise.all([done(node.unpublish(volume)), once(stacker, 'close')]);
    if (stacker.exitCode === 0) {
      const mounts = execFileSync('findmnt', ['-rno', 'TARGET,FSTYPE'], { encoding: 'utf8' });
      assert.ok(mounts.split('\n').includes(`${target} tmpfs`), `round ${round}: it is gone`);
      assert.deepEqual(readdirSync(target), ['precious']);
      stacked += 1;
      umount(target);
    }
    if (!isReleased) await node.unpublish(volume);
    assert.deepEqual(mountsBelow(target), [], `round ${round}`);
  }
  console.log(`# stacked ${stacked} of ${ROUNDS} times`);
  await node.unstage(volume);
  assertNothingHeld();
});
