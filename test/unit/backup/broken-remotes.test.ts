/** Servers of WebDAV and S3 that end, are slow, refuse, lose and change objects; and names of remotes that are refused. */
import assert from 'node:assert/strict';
import { chmodSync, existsSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { after, test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { StoreError } from '../../../src/tools/backup/object-store.js';
import { planPrune, prune } from '../../../src/tools/backup/prune.js';
import { remoteProblem } from '../../../src/tools/backup/rclone.js';
import { RemoteRepository } from '../../../src/tools/backup/remote-repository.js';
import { assertIntact, restoreToFile } from '../../../src/tools/backup/restore.js';
import { chooseBackup } from '../../../src/tools/backup/select.js';
import { verifyVolume } from '../../../src/tools/backup/verify.js';
import { BackupHistory } from '../../support/backup-history.js';
import { runCommand } from '../../support/command.js';
import { type Fault, FaultyProxy } from '../../support/faulty-proxy.js';
import { isNightly } from '../../support/nightly.js';
import { seededRandom } from '../../support/random.js';
import { refused } from '../../support/refusal.js';
import { Remotes, S3_PART_BYTES } from '../../support/remotes.js';
import { openRuntime } from '../../support/runtime.js';
import { S3_BUCKET, S3_SUFFIX } from '../../support/s3-server.js';
import { Workspace } from '../../support/workspace.js';

const { signal } = new AbortController();
/** A failure that stays is not waited for. */
const NO_RETRIES = { RCLONE_LOW_LEVEL_RETRIES: '1', RCLONE_RETRIES: '1' };
Object.assign(process.env, NO_RETRIES);
const workspace = new Workspace('broken-remotes');
const remotes = new Remotes(workspace.path('remotes'));
const runtime = await openRuntime(workspace.path('runtime'));
after(async () => {
  for (const { proxy } of Object.values(stores)) proxy.close();
  await remotes.close();
  workspace.dispose();
});

interface Store {
  proxy: FaultyProxy;
  location: string;
  /** The same objects, seen without the proxy and the caches of its server. */
  direct: string;
  /** Of the objects of the volume. */
  directory: string;
  /** What their files have behind their names. */
  suffix: string;
}

async function webdav(): Promise<Store> {
  const objects = remotes.directoryOfObjects();
  const proxy = await FaultyProxy.start(await remotes.serve(objects));
  return {
    proxy,
    location: `rclone:${remotes.add({ type: 'webdav', url: proxy.url, vendor: 'other' })}backups`,
    direct: `rclone:${remotes.add({ type: 'alias', remote: objects })}backups`,
    directory: join(objects, 'backups', 'vol-1'),
    suffix: '',
  };
}

async function s3(): Promise<Store> {
  const objects = remotes.directoryOfObjects();
  const { url } = await remotes.serveS3(objects);
  const proxy = await FaultyProxy.start(url);
  return {
    proxy,
    location: `rclone:${remotes.addS3(proxy.url)}backups`,
    direct: `rclone:${remotes.addS3(url)}backups`,
    directory: join(objects, S3_BUCKET, 'backups', 'vol-1'),
    suffix: S3_SUFFIX,
  };
}

const stores = { webdav: await webdav(), s3: await s3() };

/** A repository that lets go of everything when the test ends. */
async function open(
  t: { after(work: () => Promise<void>): void },
  at: string,
  spool = 'spool',
): Promise<RemoteRepository> {
  const repository = await RemoteRepository.open(at, { spool: workspace.path(spool), runtime, signal });
  t.after(() => repository.close());
  return repository;
}

async function restored(repository: RemoteRepository, snapshotId: string): Promise<Buffer> {
  const path = workspace.path('restored');
  rmSync(path, { force: true });
  const chosen = await chooseBackup(repository, { volumeId: 'vol-1', snapshotId });
  await assertIntact(chosen, { signal });
  await restoreToFile(chosen, { path, replace: true }, { signal });
  return readFileSync(path);
}

const problemsOf = async (repository: RemoteRepository): Promise<string[]> => {
  const found = await verifyVolume(await repository.backupsOf('vol-1'), { signal });
  return found.map(({ path, found: what }) => `${path}: ${what}`);
};

const isStoreError = (thrown: unknown): boolean => thrown instanceof StoreError;

type Requests = (method: string, path: string) => Fault;

/** The object that is cut off stays, because the client that would remove it has ended, too. */
const cut =
  (name: RegExp, cutAt: number): Requests =>
  (method, path) =>
    method === 'PUT' && name.test(path) ? { cutAt } : null;

/** Where an upload ends. */
const CUTS: Readonly<Record<string, Requests>> = {
  'the first byte of an image': cut(/qcow2$/, 0),
  'the middle of an image': cut(/qcow2$/, 1 << 20),
  'the last byte of an image': cut(/qcow2$/, -1),
  'the middle of a manifest': cut(/json$/, 500),
  // The last byte is the end of a line.
  'the last bytes of a manifest': cut(/json$/, -2),
};

/** Of S3 with parts. */
const CUTS_OF_PARTS: Readonly<Record<string, Requests>> = {
  'the second part of an image': cut(/qcow2\?partNumber=2&/, 1 << 20),
  'the request that makes an image of its parts': (method, path) =>
    method === 'POST' && /qcow2\?uploadId=/.test(path) ? { status: 500 } : null,
};

const UPLOADS = [
  ['WebDAV', stores.webdav, CUTS, isNightly ? 9 : 3, undefined],
  ['S3', stores.s3, CUTS, isNightly ? 9 : 0, undefined],
  ['S3', stores.s3, CUTS_OF_PARTS, isNightly ? 9 : 1, 2 * S3_PART_BYTES + 4096],
] as const;

for (const [server, { proxy, location, directory }, cuts, count, sizeBytes] of UPLOADS) {
  for (const [where, fault] of Object.entries(cuts).slice(0, count)) {
    test(`an upload to ${server} that ends at ${where} is no backup, and the next command sends it whole`, async (t) => {
      rmSync(directory, { recursive: true, force: true });
      const repository = await open(t, location, `spool of ${t.name}`);
      const history = await BackupHistory.begin(workspace.directory, seededRandom(t.name), repository, sizeBytes);
      proxy.faults((method, path) => (method === 'DELETE' ? { status: 403 } : fault(method, path)));
      await assert.rejects(history.add(), isStoreError);
      proxy.faults(() => null);
      assert.deepEqual((await repository.backupsOf('vol-1')).backups, []);
      // Parts of no object are none.
      if (cuts === CUTS_OF_PARTS) assert.deepEqual(await remotes.objects(location), []);
      const lock = await repository.lock('vol-1');
      await repository.addWaiting('vol-1', assert.fail);
      lock.release();
      assert.deepEqual(await problemsOf(repository), []);
      assert.equal((await repository.backupsOf('vol-1')).backups.length, 1);
      assert.ok((await restored(repository, 'snap-1')).equals(readFileSync(workspace.path('device'))));
    });
  }
}

for (const [server, { proxy, location, direct: directLocation, directory, suffix }] of Object.entries(stores)) {
  if (!isNightly && server !== 'webdav') continue;
  test(`a remote (${server}) that refuses, is away, loses or changes an object is named, and nothing wrong is restored`, async (t) => {
    rmSync(directory, { recursive: true, force: true });
    const repository = await open(t, location);
    const history = await BackupHistory.begin(workspace.directory, seededRandom(t.name), repository);
    for (let count = 0; count < 3; count += 1) await history.add(30);
    const [, second, third] = history.points;
    assert.ok(second !== undefined && third !== undefined);

    await t.test('removals are refused, as by object lock: prune says so, and every backup stays good', async () => {
      proxy.faults((method) => (method === 'DELETE' ? { status: 403 } : null));
      const lock = await repository.lock('vol-1');
      const plan = planPrune(await repository.backupsOf('vol-1'), { last: 2 });
      await assert.rejects(prune(repository, plan, { signal }), isStoreError);
      lock.release();
      proxy.faults(() => null);
      for (const { backup, bytes } of history.points) {
        assert.ok((await restored(repository, backup.manifest.snapshot.id)).equals(bytes));
      }
      const again = await repository.lock('vol-1');
      assert.deepEqual(again.problems, []);
      const left = await repository.backupsOf('vol-1');
      assert.deepEqual(left.leaving, new Set());
      await prune(repository, planPrune(left, { last: 2 }), { signal });
      again.release();
      history.points.shift();
    });

    await t.test('an error of the server is one of the remote', async () => {
      proxy.faults(() => ({ status: 500 }));
      await assert.rejects(repository.backupsOf('vol-1'), isStoreError);
      await assert.rejects(repository.all(), isStoreError);
      proxy.faults(() => null);
    });

    await t.test('a server that ends while it answers is away, and no damage', async () => {
      let isAway = false;
      proxy.faults((method, path) => {
        if (isAway) return { endsAt: 0 };
        isAway = method === 'GET' && path.includes('.qcow2');
        return isAway ? { endsAt: 100_000 } : null;
      });
      await assert.rejects(restored(repository, 'snap-3'), isStoreError);
      assert.ok(isAway && !existsSync(workspace.path('restored')));
      isAway = false;
      await assert.rejects(problemsOf(repository), isStoreError);
      assert.ok(isAway);
      proxy.faults(() => null);
    });

    await t.test('an image that the server keeps back, though it answers, is named', async () => {
      proxy.faults((method, path) => (method === 'GET' && path.includes('.qcow2') ? { status: 403 } : null));
      assert.match((await problemsOf(repository)).join('\n'), /snap-3.*rclone cannot read .* bytes of it/);
      await refused(restored(repository, 'snap-3'), 'FAILED_PRECONDITION', /snap-.*rclone cannot read/);
      proxy.faults(() => null);
    });

    await t.test('a slow server is waited for', async () => {
      let waits = 0;
      const wait = async (): Promise<void> => {
        waits += 1;
        await setTimeout(20);
      };
      proxy.faults(() => ({ wait }));
      assert.ok((await restored(repository, 'snap-3')).equals(third.bytes));
      assert.ok(waits > 10);
      proxy.faults(() => null);
    });

    const fileOf = (name: string): string => join(directory, `${name}${suffix}`);
    const image = fileOf((await repository.backupsOf('vol-1')).backups[0]?.manifest.image.file ?? '');
    const sound = readFileSync(image);

    await t.test('a flipped bit is named, and what needs the image is not restored', async () => {
      const bytes = Buffer.from(sound);
      bytes[bytes.length >> 1] = (bytes[bytes.length >> 1] ?? 0) ^ 1;
      writeFileSync(image, bytes);
      const [problem] = await problemsOf(repository);
      assert.match(problem ?? '', /snap-2.*checksum mismatch/);
      for (const { snapshot } of [second.backup.manifest, third.backup.manifest]) {
        await refused(restored(repository, snapshot.id), 'FAILED_PRECONDITION', /snap-2.*checksum mismatch/);
        assert.ok(!existsSync(workspace.path('restored')));
      }
      writeFileSync(image, sound);
    });

    await t.test('an object that differs from one reading to the next gives right bytes or an error', async () => {
      const random = seededRandom('changes');
      let [right, refusals] = [0, 0];
      for (let round = 0; round < 4; round += 1) {
        let reads = 0;
        proxy.faults((method, path) => {
          if (method !== 'GET' || !path.endsWith('.qcow2')) return null;
          reads += 1;
          const isChanged = reads > round;
          return isChanged
            ? { change: (body) => void body.writeUInt8(random.below(256), random.below(body.length)) }
            : null;
        });
        const attempt = restored(repository, 'snap-3');
        const bytes = await attempt.catch(() => null);
        if (bytes === null) {
          await refused(attempt, 'FAILED_PRECONDITION', /checksum mismatch/);
          refusals += 1;
        } else {
          assert.ok(bytes.equals(third.bytes));
          right += 1;
        }
      }
      proxy.faults(() => null);
      assert.ok(refusals > 0, `${right} right, ${refusals} refused`);
    });

    const direct = await open(t, directLocation);

    await t.test('an object that is lost, or swapped with another one, is named', async () => {
      renameSync(image, `${image}.lost`);
      assert.match((await problemsOf(direct)).join('\n'), /snap-2.*the image is missing/);
      await refused(restored(direct, 'snap-3'), 'FAILED_PRECONDITION', /snap-2/);
      const other = fileOf(third.backup.manifest.image.file);
      writeFileSync(image, readFileSync(other));
      assert.match((await problemsOf(direct)).join('\n'), /snap-2/);
      renameSync(`${image}.lost`, image);
      assert.deepEqual(await problemsOf(direct), []);
    });

    await t.test('names that nobody of us gives are no backups, and manifests that are none are named', async () => {
      const strange = ['..json', 'x.json', '-rf.json', `${'y'.repeat(200)}.json`, 'a\nb.json', 'image.qcow2'];
      for (const name of strange) writeFileSync(fileOf(name), '{}');
      const volume = await direct.backupsOf('vol-1');
      assert.equal(volume.backups.length, 2);
      assert.equal(volume.problems.length, strange.filter((name) => name.endsWith('.json')).length);
      assert.ok((await restored(direct, 'snap-3')).equals(third.bytes));
      for (const name of strange) rmSync(fileOf(name));
      assert.equal(readdirSync(directory).filter((name) => name.endsWith(suffix)).length, 4);
    });
  });
}

test('a command that is told to end while a server hangs ends, and its image waits for the next one', async (t) => {
  const { proxy, location, directory } = stores.s3;
  rmSync(directory, { recursive: true, force: true });
  const ending = new AbortController();
  const spool = workspace.path('spool of a hanging server');
  const repository = await RemoteRepository.open(location, { spool, runtime, signal: ending.signal });
  const history = await BackupHistory.begin(workspace.directory, seededRandom(t.name), repository);
  const hangs = async (): Promise<void> => {
    ending.abort(new Error('told to end'));
    await new Promise(() => undefined);
  };
  proxy.faults((method, path) => (method === 'PUT' && path.includes('.qcow2') ? { wait: hangs } : null));
  await assert.rejects(history.add(), /told to end/);
  await repository.close();
  proxy.faults(() => null);
  const next = await RemoteRepository.open(location, { spool, runtime, signal });
  t.after(() => next.close());
  const lock = await next.lock('vol-1');
  await next.addWaiting('vol-1', assert.fail);
  lock.release();
  assert.ok((await restored(next, 'snap-1')).equals(readFileSync(workspace.path('device'))));
});

test('an account that the configuration of rclone has wrong is refused, and its secret is in no message', async (t) => {
  const { url } = stores.s3.proxy;
  const account = { access_key_id: 'S3RVER', secret_access_key: 'no-such-secret' };
  const repository = await open(t, `rclone:${remotes.addS3(url, account)}backups`);
  await assert.rejects(repository.all(), (thrown: Error) => {
    assert.ok(isStoreError(thrown));
    assert.match(thrown.message, /403|SignatureDoesNotMatch/);
    assert.doesNotMatch(thrown.message, /no-such-secret/);
    return true;
  });
});

test('a compacted image that a remote did not take waits in the spool, and the next compact sends it', async (t) => {
  const { proxy, location, directory } = stores.webdav;
  rmSync(directory, { recursive: true, force: true });
  const repository = await open(t, location, 'spool of compact');
  const history = await BackupHistory.begin(workspace.directory, seededRandom(t.name), repository);
  for (let count = 0; count < 2; count += 1) await history.add(30);
  const args = ['compact', location, '--spool', workspace.path('spool of compact')];
  const env = {
    BLOCKDELTA_RUNTIME_DIR: workspace.path('runtime'),
    ...NO_RETRIES,
    RCLONE_CONFIG: process.env['RCLONE_CONFIG'] ?? '',
  };
  proxy.faults((method, path) => (method === 'PUT' && path.endsWith('.json') ? { status: 500 } : null));
  const failed = await runCommand(t, args, env);
  assert.equal(failed.code, 8, failed.stderr);
  assert.equal(failed.stdout, '');
  proxy.faults(() => null);
  const waiting = readdirSync(workspace.path('spool of compact'), { recursive: true, encoding: 'utf8' });
  const [image = ''] = waiting.filter((name) => name.endsWith('.qcow2'));
  const { code, stdout, stderr } = await runCommand(t, args, env);
  assert.equal(code, 0, stderr);
  assert.match(stdout, /snap-2 is full already/);
  const { backups, superseded } = await repository.backupsOf('vol-1');
  assert.deepEqual(superseded, []);
  assert.equal(backups[1]?.manifest.image.file, basename(image));
  assert.ok((await restored(repository, 'snap-2')).equals(history.points[1]?.bytes ?? Buffer.alloc(0)));
});

test('connection strings, and paths that lead elsewhere, are refused, and so is a configuration that others can read', async (t) => {
  for (const name of [
    'rclone::s3,secret_access_key=x:b',
    'rclone:s3,env_auth=1:b',
    'rclone:',
    'rclone:-x:b',
    'rclone:a:../b',
  ]) {
    assert.notEqual(remoteProblem(name), null, name);
  }
  assert.equal(remoteProblem('rclone:a b.c@d+e:some/path'), null);
  const configuration = process.env['RCLONE_CONFIG'] ?? '';
  chmodSync(configuration, 0o644);
  await refused(open(t, stores.webdav.location), 'FAILED_PRECONDITION', /chmod 600/);
  chmodSync(configuration, 0o600);
});
