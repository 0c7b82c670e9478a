/** Paths that a confused or hostile client names: nothing foreign is deleted, hidden or followed. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { resolveUsable } from '../../src/node/paths.js';
import {
  blockCapability,
  mountCapability,
  type NodeRpc,
  useNode,
} from '../integration/node-fixture.js';
import { rejectsWith } from '../support/expect-status.js';
import { test as rootTest } from '../support/running-plugin.js';

interface Linked {
  link: string;
  real: string;
}

const node = useNode('paths');
const { workspace } = node;

const UNKNOWN = ['none-exist-id', 'vol-562f2833d589-00000000-0000-4000-8000-000000000000'] as const;
const RELEASE = [
  ['NodeUnpublishVolume', 'target_path'],
  ['NodeUnstageVolume', 'staging_target_path'],
] as const;

/** Whatever the answer is. */
async function call(rpc: NodeRpc, request: Record<string, unknown>): Promise<void> {
  await node.call(rpc, request).catch(() => undefined);
}

rootTest(
  'NU3, NQ4, H6: an unknown id deletes nothing: no empty file, no empty directory',
  async () => {
    const file = workspace.path('cron.deny');
    const directory = workspace.path('empty');
    const staging = node.stagingPath('unknown');
    mkdirSync(directory);
    for (const path of [file, `${staging}/device`]) writeFileSync(path, '');
    for (const [rpc, field] of RELEASE) {
      for (const volume_id of UNKNOWN) {
        for (const path of [file, directory, staging, `${staging}/device`]) {
          await call(rpc, { volume_id, [field]: path });
          for (const kept of [file, directory, `${staging}/device`]) {
            assert.ok(existsSync(kept), `${rpc} of ${volume_id} with ${path} deleted ${kept}`);
          }
        }
      }
    }
  },
);

rootTest(
  'H6: the id of a volume deletes nothing unless a record or a mount proves that it belongs to the volume',
  async () => {
    const volume = await node.makeVolume();
    const file = workspace.path('file');
    const directory = workspace.path('directory');
    const staging = node.stagingPath('other');
    mkdirSync(directory);
    for (const path of [file, `${staging}/device`]) writeFileSync(path, '');
    await node.stage(volume, mountCapability());
    for (const path of [file, directory]) await node.unpublish(volume, { target_path: path });
    await node.unstage(volume, { staging_target_path: staging });
    for (const kept of [file, directory, `${staging}/device`]) assert.ok(existsSync(kept), kept);
    // What a failed publication found there is not its own either.
    await rejectsWith(
      node.publish(volume, mountCapability(), { target_path: file }),
      'FAILED_PRECONDITION',
      /is not a directory/,
    );
    await node.unpublish(volume, { target_path: file });
    assert.ok(existsSync(file));
    await node.unstage(volume);
  },
);

rootTest('H6: marks and directories of the pool stay, whatever request names them', async () => {
  const volume = await node.makeVolume();
  await node.stage(volume, blockCapability());
  await node.unstage(volume);
  const pool = workspace.path('xfs.pool');
  const mark = `${pool}/used/${volume.volumeId}`;
  const before = readdirSync(pool);
  assert.ok(existsSync(mark));
  for (const [rpc, field] of RELEASE) {
    for (const volume_id of [volume.volumeId, ...UNKNOWN]) {
      for (const path of [mark, `${pool}/snapshots`, `${pool}/volumes`]) {
        const answer = node.call(rpc, { volume_id, [field]: path });
        await rejectsWith(answer, 'INVALID_ARGUMENT', new RegExp(`^${field} ${path} `));
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

rootTest(
  'NS2, H6: directories of the system and of the plugin are refused, and the error names the field',
  async () => {
    const volume = await node.makeVolume();
    const { volumeId: volume_id } = volume;
    const state = workspace.path('state');
    mkdirSync(`${state}/pools`, { recursive: true });
    mkdirSync(workspace.path('socket'), { recursive: true });
    const own = [state, `${state}/pools`, `${state}/new`, workspace.path('socket')];
    for (const path of [...SYSTEM, ...own, workspace.directory]) {
      const pattern = (field: string): RegExp => new RegExp(`^${field} ${path} cannot be used`);
      const stage = node.stage(volume, mountCapability(), { staging_target_path: path });
      await rejectsWith(stage, 'INVALID_ARGUMENT', pattern('staging_target_path'));
      const publish = node.publish(volume, mountCapability(), { target_path: path });
      await rejectsWith(publish, 'INVALID_ARGUMENT', pattern('target_path'));
      const from = node.publish(volume, mountCapability(), { staging_target_path: path });
      await rejectsWith(from, 'INVALID_ARGUMENT', pattern('staging_target_path'));
      for (const [rpc, field] of RELEASE) {
        const answer = node.call(rpc, { volume_id, [field]: path });
        await rejectsWith(answer, 'INVALID_ARGUMENT', pattern(field));
      }
      for (const rpc of ['NodeGetVolumeStats', 'NodeExpandVolume'] as const) {
        await rejectsWith(node.call(rpc, { volume_id, volume_path: path }), 'NOT_FOUND');
      }
    }
    assert.deepEqual(node.held(), { mounts: [], loops: [] });
  },
);

rootTest(
  "H7: staging over the pool's volumes is refused, by whichever path they are named",
  async () => {
    const volume = await node.makeVolume();
    const pool = workspace.path('xfs.pool');
    const link = workspace.path('link');
    symlinkSync(pool, link);
    const bound = workspace.path('bound');
    const inner = workspace.path('inner');
    for (const path of [bound, inner]) mkdirSync(path);
    execFileSync('mount', ['--bind', pool, bound]);
    execFileSync('mount', ['--bind', `${pool}/volumes`, inner]);
    try {
      const names = [`${pool}/volumes`, `${link}/volumes`, `${bound}/volumes`, inner, bound];
      for (const staging_target_path of [
        ...names,
        `${workspace.directory}/inner/./../bound/volumes`,
      ]) {
        const answer = node.stage(volume, mountCapability(), { staging_target_path });
        await rejectsWith(answer, 'INVALID_ARGUMENT', /^staging_target_path /);
        const target = node.publish(volume, mountCapability(), {
          target_path: staging_target_path,
        });
        await rejectsWith(target, 'INVALID_ARGUMENT', /^target_path /);
      }
    } finally {
      for (const path of [inner, bound]) execFileSync('umount', [path]);
    }
    const next = await node.makeVolume();
    assert.ok(existsSync(`${pool}/volumes/${next.volumeId}`));
    assert.deepEqual(node.held(), { mounts: [], loops: [] });
  },
);

rootTest(
  'a directory that the configuration names through a link is protected at its real path',
  async () => {
    const [pool, state, socket] = ['pool', 'state', 'socket'].map((name) => {
      const [link, real] = [workspace.path(`linked-${name}`), workspace.path(`real-${name}`)];
      mkdirSync(`${real}/inner`, { recursive: true });
      symlinkSync(real, link);
      return { link, real };
    }) as [Linked, Linked, Linked];
    const config = {
      ...node.deps.config,
      stateDirectory: state.link,
      pools: [{ kind: 'reflink' as const, name: 'linked', directory: pool.link }],
      socketPath: `${socket.link}/csi.sock`,
    };
    for (const path of [pool.real, `${pool.real}/inner`, `${state.real}/inner`, socket.real]) {
      await assert.rejects(
        resolveUsable({ config }, path, 'target_path'),
        /^CsiError: target_path .* cannot be used/,
        path,
      );
    }
    assert.equal(
      await resolveUsable({ config }, `${socket.real}/inner`, 'target_path'),
      `${socket.real}/inner`,
    );
  },
);

rootTest('H7: a path inside a volume is refused, because tenants control its content', async () => {
  const [outer, volume] = [await node.makeVolume(), await node.makeVolume()];
  await node.stage(outer, mountCapability());
  const inside = node.stagingPath(outer.volumeId);
  mkdirSync(`${inside}/staging`);
  symlinkSync(workspace.path('pods'), `${inside}/link`);
  const staging = { staging_target_path: `${inside}/staging` };
  await rejectsWith(
    node.stage(volume, mountCapability(), staging),
    'INVALID_ARGUMENT',
    /inside volume/,
  );
  await node.stage(volume, mountCapability());
  const target = { target_path: `${inside}/target` };
  await rejectsWith(node.publish(volume, mountCapability(), target), 'INVALID_ARGUMENT', /inside/);
  assert.equal(existsSync(`${inside}/target`), false);
  for (const one of [volume, outer]) await node.unstage(one);
});

rootTest('paths that orchestrators use are served, also through a linked parent', async () => {
  const kubelet = workspace.path('data', 'kubelet');
  mkdirSync(`${kubelet}/pods`, { recursive: true });
  mkdirSync(`${kubelet}/globalmount`);
  symlinkSync(kubelet, workspace.path('kubelet'));
  const staging_target_path = workspace.path('kubelet', 'globalmount');
  const target_path = workspace.path('kubelet', 'pods', 'mount');
  for (const capability of [mountCapability(), blockCapability()]) {
    const volume = await node.makeVolume();
    await node.stage(volume, capability, { staging_target_path });
    await node.publish(volume, capability, { staging_target_path, target_path });
    assert.ok(existsSync(`${kubelet}/pods/mount`));
    await node.unpublish(volume, { target_path });
    await node.unstage(volume, { staging_target_path });
    assert.deepEqual(readdirSync(`${kubelet}/pods`), []);
    assert.deepEqual(readdirSync(`${kubelet}/globalmount`), []);
  }
  assert.deepEqual(node.held(), { mounts: [], loops: [] });
});

rootTest('H8: a link swapped into a parent directory does not redirect any call', async () => {
  for (const capability of [mountCapability(), blockCapability()]) {
    const volume = await node.makeVolume();
    const [link, real, foreign] = ['link', 'real', 'foreign'].map((name) =>
      workspace.path(`swap-${name}`),
    ) as [string, string, string];
    for (const directory of [real, foreign]) mkdirSync(`${directory}/staging`, { recursive: true });
    symlinkSync(real, link);
    const staging_target_path = `${link}/staging`;
    const target_path = `${link}/target`;
    await node.stage(volume, capability, { staging_target_path });
    await node.publish(volume, capability, { staging_target_path, target_path });
    mkdirSync(`${foreign}/target`);
    rmSync(link);
    symlinkSync(foreign, link);
    const again = node.publish(volume, capability, { staging_target_path, target_path });
    await rejectsWith(again, 'FAILED_PRECONDITION', /leads to .*swap-foreign.* now/);
    const stage = node.stage(volume, capability, { staging_target_path });
    await rejectsWith(stage, 'FAILED_PRECONDITION', /leads to .*swap-foreign.* now/);
    await node.unpublish(volume, { target_path });
    assert.ok(lstatSync(`${foreign}/target`).isDirectory(), 'the foreign directory stays');
    assert.equal(existsSync(`${real}/target`), false);
    await node.unstage(volume, { staging_target_path });
    assert.deepEqual(node.held(), { mounts: [], loops: [] });
    for (const directory of [link, real, foreign]) rmSync(directory, { recursive: true });
  }
});

rootTest('H8: a mount that moved with its renamed parent is reported, not forgotten', async () => {
  for (const capability of [mountCapability(), blockCapability()]) {
    const volume = await node.makeVolume();
    const [parent, moved] = [workspace.path('parent'), workspace.path('moved')];
    mkdirSync(parent);
    const target_path = `${parent}/target`;
    await node.stage(volume, capability);
    await node.publish(volume, capability, { target_path });
    execFileSync('mv', [parent, moved]);
    mkdirSync(`${parent}/target`, { recursive: true });
    const answer = node.unpublish(volume, { target_path });
    await rejectsWith(answer, 'FAILED_PRECONDITION', new RegExp(`${moved}/target; nothing was`));
    assert.ok(existsSync(target_path), 'it has the name of a target of ours, and is another one');
    execFileSync('umount', [`${moved}/target`]);
    await node.unpublish(volume, { target_path });
    await node.unstage(volume);
    assert.deepEqual(node.held(), { mounts: [], loops: [] });
    for (const directory of [parent, moved]) rmSync(directory, { recursive: true });
  }
});

rootTest(
  'H8: a foreign file system stacked on a target or a staging directory keeps its data',
  async () => {
    const volume = await node.makeVolume();
    await node.stage(volume, mountCapability());
    await node.publish(volume, mountCapability());
    const target = node.targetPath(volume.volumeId);
    const staging = node.stagingPath(volume.volumeId);
    for (const [path, release] of [
      [target, () => node.unpublish(volume)],
      [staging, () => node.unstage(volume)],
    ] as const) {
      execFileSync('mount', ['-t', 'tmpfs', 'stacked', path]);
      writeFileSync(`${path}/precious`, 'data');
      const before = node.held();
      await rejectsWith(
        release(),
        'FAILED_PRECONDITION',
        /something else mounted on it \(stacked\)/,
      );
      assert.deepEqual(node.held(), before);
      assert.deepEqual(readdirSync(path), ['precious']);
      execFileSync('umount', [path]);
      await release();
    }
    assert.deepEqual(node.held(), { mounts: [], loops: [] });
  },
);
