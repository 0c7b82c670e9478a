/** `blockdelta restore --in-place` as a process, on volumes of a running plugin: what it writes, and who may use the volume meanwhile. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, statfsSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { RESTORE_TOKEN } from '../../../src/base/csi/restore-proto.js';
import { writeToDevice } from '../../../src/tools/backup/copy-to-device.js';
import { writeRanges } from '../../../src/tools/backup/ranges-file.js';
import { CsiConnection } from '../../../src/tools/client/connection.js';
import { assertSame, backedUp } from '../../support/backups.js';
import { type Ended, runCommand } from '../../support/command.js';
import { blockCapability, type Message, mountCapability } from '../../support/csi-client.js';
import { attachLoop, detachLoop, sparseFile } from '../../support/loops.js';
import { isNightly } from '../../support/nightly.js';
import { type HeldVolume, MIB } from '../../support/orchestrator.js';
import { PROGRAM } from '../../support/program.js';
import { seededRandom } from '../../support/random.js';
import { refused } from '../../support/refusal.js';
import { NOTHING, runPlugin, test } from '../../support/running-plugin.js';
import { openRuntime } from '../../support/runtime.js';
import { writeAt } from '../../support/write-at.js';

const SIZE = 32 * MIB;
const running = runPlugin('in-place', {
  pools: { xfs: 'xfs', btrfs: 'btrfs' },
  poolSizeMiB: 1024,
  env: { BLOCKDELTA_LOG_LEVEL: 'debug' },
});
const random = seededRandom('in place');

type Pool = 'xfs' | 'btrfs';

interface InPlaceJson {
  method: string;
  reason: string | null;
  ranges: number;
  range_bytes: string;
  written_bytes: string;
  kept_snapshot: string | null;
}

/** A volume in use with random content, and a backup of it. */
interface History {
  volume: HeldVolume;
  directory: string;
  snapshot: string;
  /** What the backup has. */
  bytes: Buffer;
}

let made = 0;
const directoryOf = (name: string): string => running.workspace.path('backups', name);

async function makeHistory(t: TestContext, pool: Pool): Promise<History> {
  const { orchestrator } = running;
  made += 1;
  const volume = await orchestrator.create(`volume ${made}`, { sizeBytes: SIZE, parameters: { pool } });
  await orchestrator.bringUp(volume);
  writeAt(volume.targetPath, 0, random.bytes(20 * MIB));
  mkdirSync(directoryOf(''), { recursive: true });
  const directory = directoryOf(`${made}`);
  const snapshot = await orchestrator.snapshot(volume);
  await backUp(t, snapshot, directory);
  return { volume, directory, snapshot, bytes: readFileSync(volume.targetPath) };
}

const backUp = (t: TestContext, snapshot: string, directory: string) =>
  backedUp(t, { endpoint: running.plugin.endpoint, directory, temporary: running.workspace.directory }, snapshot);

const args = ({ directory, snapshot }: History, ...more: string[]): string[] => [
  'restore',
  directory,
  '--snapshot',
  snapshot,
  '--in-place',
  '--json',
  ...more,
];

async function restored(t: TestContext, history: History, ...more: string[]): Promise<InPlaceJson> {
  return JSON.parse(await running.output(t, ...args(history, ...more))) as InPlaceJson;
}

async function fails(t: TestContext, code: number, said: RegExp, history: History, ...more: string[]): Promise<Ended> {
  const ended = await runCommand(t, args(history, ...more), running.settings);
  assert.equal(ended.code, code, ended.stderr);
  assert.match(ended.stderr, said);
  return ended;
}

const contentOf = (pool: Pool, { id }: HeldVolume): Buffer => readFileSync(running.poolPath(pool, 'volumes', id));

async function snapshotsOf({ id }: HeldVolume): Promise<string[]> {
  const { entries } = await running.client.controller.ListSnapshots({ source_volume_id: id });
  return (entries as Message[]).map(({ snapshot }) => String(snapshot['snapshot_id'])).sort();
}

for (const pool of ['xfs', 'btrfs'] as const) {
  test(`a volume on ${pool} gets the content of its backup by what differs alone, and the next backup is incremental`, async (t) => {
    const { orchestrator, client } = running;
    const history = await makeHistory(t, pool);
    const { volume, snapshot, bytes, directory } = history;
    for (const isDeleted of pool === 'xfs' || isNightly ? [false, true] : [true]) {
      writeAt(volume.targetPath, 3 * MIB, random.bytes(64 << 10));
      writeAt(volume.targetPath, 19 * MIB, random.bytes(64 << 10));
      // Zeros of the backup.
      writeAt(volume.targetPath, 30 * MIB, random.bytes(MIB));
      const listed = await client.delta(snapshot, await orchestrator.snapshot(volume));
      await orchestrator.deleteSnapshot((await snapshotsOf(volume)).find((id) => id !== snapshot) ?? '');
      if (isDeleted) await orchestrator.deleteSnapshot(snapshot);
      await orchestrator.takeDown(volume);
      const { method, reason, range_bytes, written_bytes, kept_snapshot } = await restored(
        t,
        history,
        '--keep-snapshot',
      );
      assert.deepEqual([method, reason], ['delta', null]);
      assert.equal(
        BigInt(range_bytes),
        listed.ranges.reduce((sum, { size }) => sum + size, 0n),
      );
      assert.equal(written_bytes, range_bytes);
      assert.ok(contentOf(pool, volume).equals(bytes), 'the content');
      const kept = String(kept_snapshot);
      assert.deepEqual(await snapshotsOf(volume), isDeleted ? [kept] : [snapshot, kept].sort());
      // What was written is no more than what was listed.
      const written = await client.delta(kept, await orchestrator.snapshot(volume));
      for (const { offset, size } of written.ranges) {
        assert.ok(listed.ranges.some((each) => each.offset <= offset && offset + size <= each.offset + each.size));
      }
      for (const id of (await snapshotsOf(volume)).filter((each) => each !== snapshot))
        await orchestrator.deleteSnapshot(id);
      await orchestrator.bringUp(volume);
    }
    writeAt(volume.targetPath, MIB, random.bytes(4096));
    const next = await backUp(t, await orchestrator.snapshot(volume), directory);
    assert.deepEqual([next.method, next.base_snapshot_id], ['delta', snapshot]);
    await assertSame(volume.targetPath, next.image);
    await orchestrator.remove(volume);
  });
}

/** Brings a volume to a place of its own and away again, as the command does. */
async function staged(
  { id }: HeldVolume,
  capability: Message,
  token: string | null,
  use: (device: string) => void = () => undefined,
): Promise<void> {
  const place = { volume_id: id, staging_target_path: running.workspace.path('staging') };
  mkdirSync(place.staging_target_path, { recursive: true });
  const secrets = token === null ? {} : { [RESTORE_TOKEN]: token };
  await running.client.node.NodeStageVolume({ ...place, volume_capability: capability, secrets });
  use(join(place.staging_target_path, 'device'));
  await running.client.node.NodeUnstageVolume(place);
}

test('a damaged image leaves a volume that nobody can use, and the command that each refusal names finishes it', async (t) => {
  const { orchestrator } = running;
  const history = await makeHistory(t, 'xfs');
  const { volume, bytes, directory, snapshot } = history;
  for (const at of [1, 18]) writeAt(volume.targetPath, at * MIB, random.bytes(2 * MIB));
  await orchestrator.takeDown(volume);
  const before = contentOf('xfs', volume);
  const path = join(directory, volume.id);
  const image = join(path, readdirSync(path).find((name) => name.endsWith('.qcow2')) ?? '');
  const flip = (offset: number): void => writeAt(image, offset, Buffer.from([(readFileSync(image)[offset] ?? 0) ^ 1]));

  // Nothing was written.
  flip(MIB);
  await fails(t, 5, /damaged: checksum mismatch within the 16777216 bytes that begin at byte 0/, history);
  flip(MIB);
  assert.ok(contentOf('xfs', volume).equals(before));
  assert.deepEqual(await snapshotsOf(volume), [snapshot]);
  await staged(volume, blockCapability(), null);

  flip(18 * MIB);
  const { stderr } = await fails(t, 5, /begin at byte 16777216/, history);
  const [, kept = ''] = /is half restored: .*; snapshot (\S+) has what it held before/.exec(stderr) ?? [];
  assert.deepEqual(await snapshotsOf(volume), [snapshot, kept].sort());
  assert.ok(readFileSync(running.poolPath('xfs', 'snapshots', kept)).equals(before));
  let told = '';
  for (const restart of [async () => undefined, () => running.crash()]) {
    await restart();
    for (const capability of [blockCapability(), mountCapability('ext4'), mountCapability('')]) {
      told = await refused(staged(volume, capability, null), 'FAILED_PRECONDITION', /is half restored/);
    }
    await refused(
      staged(volume, blockCapability(), '0'.repeat(32)),
      'FAILED_PRECONDITION',
      /another command has begun/,
    );
  }
  assert.match(await running.output(t, 'volumes'), new RegExp(`${volume.id} .* half restored `));
  await fails(t, 5, /begin at byte 16777216/, history);
  assert.ok((await snapshotsOf(volume)).includes(kept), 'the way back');

  flip(18 * MIB);
  const command = /finishes the restore: blockdelta (.*)$/.exec(told)?.[1] ?? '';
  const env = { ...process.env, ...running.settings, CSI_ENDPOINT: '' };
  execFileSync('sh', ['-c', `${process.execPath} ${PROGRAM} ${command}`], { env });
  assert.ok(contentOf('xfs', volume).equals(bytes));
  assert.deepEqual(await snapshotsOf(volume), [snapshot]);
  assert.deepEqual(running.held(), NOTHING);
  await orchestrator.bringUp(volume);
  await orchestrator.remove(volume);
});

test('a restore writes over whatever an earlier one has written, and keeps the snapshot of the first until it has ended', async (t) => {
  const { orchestrator } = running;
  const history = await makeHistory(t, 'xfs');
  const { volume, bytes, snapshot } = history;
  writeAt(volume.targetPath, 5 * MIB, random.bytes(MIB));
  await orchestrator.takeDown(volume);
  const connection = new CsiConnection(running.plugin.endpoint.slice('unix://'.length));
  t.after(() => connection.close());
  const begin = () => connection.unary('BeginRestore', { volume_id: volume.id, command: 'finish' });
  await refused(connection.unary('BeginRestore', { volume_id: volume.id, command: 'a\nb' }), 'INVALID_ARGUMENT');
  const { token: late } = await begin();
  const { token, snapshot_name: name } = await begin();
  const before = await orchestrator.snapshot(volume, name);
  await refused(staged(volume, blockCapability(), late), 'FAILED_PRECONDITION', /another command has begun/);
  await staged(volume, blockCapability(), token, (device) => writeAt(device, 8 * MIB, random.bytes(MIB)));
  const { range_bytes, kept_snapshot } = await restored(t, history, '--keep-snapshot');
  assert.ok(contentOf('xfs', volume).equals(bytes));
  assert.deepEqual([range_bytes, kept_snapshot], [`${2 * MIB}`, before]);
  assert.deepEqual(await snapshotsOf(volume), [snapshot, before].sort());
  await refused(staged(volume, blockCapability(), token), 'FAILED_PRECONDITION', /or has finished it/);
  await staged(volume, blockCapability(), null);
  await orchestrator.delete(volume);
  for (const each of [late, token]) assert.ok(!running.plugin.log.includes(each), 'the token is logged');
  assert.ok(running.plugin.log.includes('BeginRestore'));
});

test('a volume in use is refused before anything is done, and of two commands at once one restores it', async (t) => {
  const { orchestrator } = running;
  const history = await makeHistory(t, 'xfs');
  const { volume, bytes, snapshot } = history;
  writeAt(volume.targetPath, 5 * MIB, random.bytes(MIB));
  await fails(t, 5, /is in use at .*, so it cannot be restored in place/, history);
  assert.deepEqual(await snapshotsOf(volume), [snapshot]);
  await orchestrator.takeDown(volume);
  const ended = await Promise.all([1, 2].map(() => runCommand(t, args(history), running.settings)));
  const codes = ended.map(({ code }) => code);
  assert.ok(codes.includes(0) && codes.every((code) => code === 0 || code === 5), ended.map((e) => e.stderr).join());
  assert.ok(contentOf('xfs', volume).equals(bytes));
  assert.deepEqual(await snapshotsOf(volume), [snapshot]);
  await orchestrator.bringUp(volume);
  await orchestrator.remove(volume);
  await fails(t, 4, /volume .* does not exist/, history);
});

test('what follows the end of the backup becomes zeros in a volume that has grown, and a file system grows with its next staging', async (t) => {
  const { orchestrator, client } = running;
  for (const kind of isNightly ? ['block', 'ext4', 'xfs'] : ['block', 'ext4']) {
    const capability = kind === 'block' ? blockCapability() : mountCapability(kind);
    const sizeBytes = kind === 'xfs' ? 320 * MIB : SIZE;
    const volume = await orchestrator.create(`grown ${kind}`, { sizeBytes, capability, parameters: { pool: 'xfs' } });
    await orchestrator.bringUp(volume);
    const file = kind === 'block' ? volume.targetPath : join(volume.targetPath, 'file');
    const write = (at: number, bytes: Buffer): void => {
      if (kind !== 'block') execFileSync('touch', [file]);
      writeAt(file, at, bytes);
      execFileSync('sync', ['--file-system', volume.stagingPath]);
    };
    const sizeOfFileSystem = (): number => statfsSync(volume.targetPath).blocks;
    const small = sizeOfFileSystem();
    const content = random.bytes(MIB);
    write(0, content);
    const directory = directoryOf(`grown-${kind}`);
    const snapshot = await orchestrator.snapshot(volume);
    const { image } = await backUp(t, snapshot, directory);
    const grown = sizeBytes + 32 * MIB;
    await client.controller.ControllerExpandVolume({
      volume_id: volume.id,
      capacity_range: { required_bytes: grown },
    });
    await orchestrator.takeDown(volume);
    await orchestrator.bringUp(volume);
    write(0, random.bytes(MIB));
    if (kind === 'block') write(grown - MIB, random.bytes(MIB));
    await orchestrator.takeDown(volume);
    const history = { volume, directory, snapshot, bytes: Buffer.alloc(0) };
    assert.equal((await restored(t, history)).method, 'delta');
    const found = contentOf('xfs', volume);
    assert.equal(found.length, grown);
    assert.ok(found.subarray(sizeBytes).equals(Buffer.alloc(32 * MIB)), 'the rest is zeros');
    // A content that is longer is equal if its rest is zeros.
    await assertSame(running.poolPath('xfs', 'volumes', volume.id), image);
    await orchestrator.bringUp(volume);
    assert.ok(readFileSync(file).subarray(0, MIB).equals(content));
    if (kind !== 'block') {
      assert.ok(sizeOfFileSystem() > small, `${kind} has grown`);
    }
    await orchestrator.remove(volume);
  }
});

test('what was written is read back from the device', async () => {
  const [image, raw] = [running.workspace.path('written.qcow2'), running.workspace.path('written.raw')];
  sparseFile(raw, MIB);
  execFileSync('qemu-img', ['convert', '-O', 'qcow2', raw, image]);
  const device = attachLoop(sparseFile(running.workspace.path('written.device'), MIB));
  const [path, { signal }] = [running.workspace.path('written.ranges'), new AbortController()];
  const sizeBytes = BigInt(MIB);
  const entries = (async function* () {
    yield [{ offset: 0n, size: 65_536n }];
  })();
  const ranges = await writeRanges(entries, { of: 'a test', path, grainBytes: 4096n, sizeBytes: () => sizeBytes });
  const copy = {
    images: [image],
    ranges,
    device,
    sizeBytes,
    runtime: await openRuntime(running.workspace.directory),
    signal,
  };
  const phases: string[] = [];
  const written = (meanwhile: () => void) =>
    writeToDevice({
      ...copy,
      onWriting: () => phases.push('write'),
      onComparing: () => {
        phases.push('compare');
        meanwhile();
      },
    });
  try {
    writeAt(device, 0, random.bytes(65_536));
    await written(() => writeAt(device, 65_536, Buffer.alloc(512, 1)));
    await refused(
      written(() => writeAt(device, 61_440, Buffer.alloc(512, 1))),
      'INTERNAL',
      /is not what the backup has/,
    );
    assert.deepEqual(phases, ['write', 'compare', 'write', 'compare']);
  } finally {
    detachLoop(device);
  }
});
