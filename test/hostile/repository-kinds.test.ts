/**
 * A directory of backups in which every volume but two is broken in a way of its own: its manifests, its images, or what lies
 * in their places. Each command runs once over all of them. It names what is broken, follows nothing that leads elsewhere, and
 * does its work on the two that are sound. repository.test.ts has what needs a repository to itself.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  closeSync,
  copyFileSync,
  existsSync,
  linkSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { after, before, type TestContext, test } from 'node:test';
import { messageOf } from '../../src/base/errors.js';
import { baseNameOf } from '../../src/tools/backup/chains.js';
import { checksumSegments } from '../../src/tools/backup/checksums.js';
import { formatManifest, type Manifest } from '../../src/tools/backup/manifest.js';
import { assertIntact, restoreToFile } from '../../src/tools/backup/restore.js';
import { chooseBackup } from '../../src/tools/backup/select.js';
import { type Backup, imagePathOf } from '../../src/tools/backup/stored-backup.js';
import { BackupHistory } from '../support/backup-history.js';
import { runCommand } from '../support/command.js';
import { isNightly } from '../support/nightly.js';
import { seededRandom } from '../support/random.js';
import { Workspace } from '../support/workspace.js';

const SECRET = 'what only root may read';
const SOUND = ['first-sound', 'last-sound'];

/** Any shape: what a hostile manifest has in place of a field. */
type Fields = Record<string, unknown>;

/** The backups of one volume, a full one and one that is based on it, to be broken. */
class Forgery {
  constructor(
    readonly directory: string,
    readonly volumeId: string,
    readonly full: Backup,
    readonly delta: Backup,
  ) {}

  path(name: string): string {
    return join(this.directory, name);
  }

  get manifest(): string {
    return this.path(this.delta.name);
  }

  get image(): string {
    return this.path(this.delta.manifest.image.file);
  }

  /** Changes fields of the newer manifest, whose checksum is right. */
  seal(fields: Fields, name = this.delta.name): void {
    const forged = { ...this.#own, ...fields } as unknown as Manifest;
    writeFileSync(this.path(name), formatManifest(forged));
  }

  sealPart(part: 'volume' | 'snapshot' | 'base' | 'image' | 'ranges', fields: Fields): void {
    this.seal({ [part]: { ...this.#own[part], ...fields } });
  }

  /** Changes the text of the newer manifest. */
  text(change: (text: string) => string | Buffer): void {
    writeFileSync(this.manifest, change(readFileSync(this.manifest, 'utf8')));
  }

  /** Writes into the newer image. */
  write(at: number, bytes: Buffer): void {
    const file = openSync(this.image, 'r+');
    writeSync(file, bytes, 0, bytes.length, at);
    closeSync(file);
  }

  /** The manifest states the checksums of the image as it is. */
  async sealImage(): Promise<void> {
    this.sealPart('image', await checksumSegments(this.image));
  }

  async forgeHeader(at: number, bytes: Buffer): Promise<void> {
    this.write(at, bytes);
    await this.sealImage();
  }

  inPlaceOf(path: string, make: (path: string) => void): void {
    rmSync(path);
    make(path);
  }

  get #own(): Manifest {
    const { manifest } = this.delta;
    return { ...manifest, volume: this.ownOf(this.delta) };
  }

  /** The volume of a backup, with the id of this one. */
  ownOf({ manifest }: Backup): Manifest['volume'] {
    return { ...manifest.volume, id: this.volumeId };
  }
}

const u32 = (value: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
};
const u64 = (value: bigint): Buffer => {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64BE(value);
  return bytes;
};

let workspace: Workspace;
const secret = (): string => workspace.path('secret');

/** What is broken, and what `verify` says of it. */
const KINDS: Readonly<Record<string, readonly [RegExp, (volume: Forgery) => void | Promise<void>]>> = {
  'manifest-empty': [/is not JSON/, (v) => v.text(() => '')],
  'manifest-cut': [/is not JSON/, (v) => v.text((text) => text.slice(0, text.length / 2))],
  'manifest-bytes': [/is not JSON/, (v) => v.text(() => Buffer.from([0xff, 0xfe, 0, 1]))],
  'manifest-deep': [/is not JSON|no object/, (v) => v.text(() => '['.repeat(1_000_000))],
  'manifest-array': [/has no object at the top/, (v) => v.text(() => '[]')],
  'manifest-null': [/has no object at the top/, (v) => v.text(() => 'null')],
  'manifest-number': [/has no object at the top/, (v) => v.text(() => '1e999')],
  'manifest-zeros': [/is not JSON/, (v) => v.text((text) => Buffer.alloc(text.length))],
  'manifest-long': [/bytes, and at most \d+ are read/, (v) => truncateSync(v.manifest, 2 ** 40)],
  'manifest-changed': [/the checksum that it states/, (v) => v.text((text) => text.replace('"n1"', '"n2"'))],
  'manifest-unsealed': [/the checksum that it states/, (v) => v.text((text) => text.replace('"checksum"', '"sum"'))],
  'manifest-of-proto': [/no valid version/, (v) => v.text(() => '{"__proto__": {"version": 1}}')],
  'manifest-link': [/no regular file/, (v) => v.inPlaceOf(v.manifest, (path) => symlinkSync(secret(), path))],
  'manifest-pipe': [/no regular file/, (v) => v.inPlaceOf(v.manifest, (path) => execFileSync('mkfifo', [path]))],
  'manifest-directory': [/no regular file/, (v) => v.inPlaceOf(v.manifest, (path) => mkdirSync(path))],
  'version-next': [/has version 2, and this program reads version 1/, (v) => v.seal({ version: 2 })],
  'version-text': [/no valid version/, (v) => v.seal({ version: '1' })],
  'version-none': [/no valid version/, (v) => v.seal({ version: undefined })],
  'volume-none': [/has no object volume/, (v) => v.seal({ volume: undefined })],
  'volume-list': [/has no object volume/, (v) => v.seal({ volume: [] })],
  'volume-other': [/is a backup of volume vol-1/, (v) => v.seal({ volume: v.full.manifest.volume })],
  'size-number': [/no valid volume.sizeBytes/, (v) => v.sealPart('volume', { sizeBytes: 4096 })],
  'size-negative': [/no valid volume.sizeBytes/, (v) => v.sealPart('volume', { sizeBytes: '-4096' })],
  'size-long': [/no valid volume.sizeBytes/, (v) => v.sealPart('volume', { sizeBytes: '9'.repeat(20) })],
  'size-less': [/a volume does not shrink/, (v) => v.sealPart('volume', { sizeBytes: 4096n })],
  'size-more': [
    /has a device of \d+ bytes, and the manifest says/,
    (v) => v.sealPart('volume', { sizeBytes: 1n << 40n }),
  ],
  'time-none': [/no valid snapshot.creationTime/, (v) => v.sealPart('snapshot', { creationTime: 'yesterday' })],
  'time-other': [
    /give it and its image the name/,
    (v) => v.sealPart('snapshot', { creationTime: '2026-01-03T00:00:00.000Z' }),
  ],
  'snapshot-other': [
    /give it and its image the name/,
    (v) => v.sealPart('snapshot', { id: '../../secret\n\u001b[2J' }),
  ],
  'file-above': [/no valid image.file/, (v) => v.sealPart('image', { file: '../../secret' })],
  'file-absolute': [/no valid image.file/, (v) => v.sealPart('image', { file: secret() })],
  'file-directory': [/no valid image.file/, (v) => v.sealPart('image', { file: '..' })],
  'file-of-another': [/it was renamed or copied/, (v) => v.sealPart('image', { file: v.full.manifest.image.file })],
  'digests-none': [/has 0 digests/, (v) => v.sealPart('image', { sha256: [] })],
  'digests-many': [
    /has 1001 digests|\d+ digests/,
    (v) => v.sealPart('image', { sha256: Array(1001).fill('ab'.repeat(32)) }),
  ],
  'digests-odd': [/no valid image.sha256/, (v) => v.sealPart('image', { sha256: ['AB'.repeat(32)] })],
  'segments-none': [/no valid image.segmentBytes/, (v) => v.sealPart('image', { segmentBytes: 0 })],
  'segments-large': [/no valid image.segmentBytes/, (v) => v.sealPart('image', { segmentBytes: 2 ** 40 })],
  'method-unknown': [/unknown method 'magic'/, (v) => v.seal({ method: 'magic' })],
  'method-without-base': [/has method 'delta' and no base/, (v) => v.seal({ base: null })],
  'method-with-base': [/has method 'full' and a base/, (v) => v.seal({ method: 'full' })],
  'base-none': [/is missing or damaged/, (v) => v.sealPart('base', { snapshotId: 'snap-0' })],
  'base-of-another-driver': [/is missing or damaged/, (v) => v.sealPart('base', { driver: 'another' })],
  'base-of-another-day': [/is missing or damaged/, (v) => v.sealPart('base', { creationTime: '2025-01-01T00:00:00Z' })],
  'base-itself': [/on itself by way of/, (v) => v.seal({ base: baseNameOf(v.delta) })],
  'base-circle': [
    /on itself by way of/,
    (v) => {
      const { name, manifest } = v.full;
      const base = baseNameOf(v.delta);
      v.seal({ ...manifest, volume: v.ownOf(v.full), base, method: 'delta' }, name);
    },
  ],
  'base-by-header-alone': [
    /is based on .*, and the manifest says nothing/,
    (v) => v.seal({ base: null, method: 'full' }),
  ],
  'image-none': [/the image is missing/, (v) => rmSync(v.image)],
  'image-empty': [/has 0 bytes, and the manifest says/, (v) => truncateSync(v.image, 0)],
  'image-cut': [/bytes, and the manifest says/, (v) => truncateSync(v.image, 65_536)],
  'image-long': [/has \d+ bytes, and the manifest says/, (v) => truncateSync(v.image, 2 ** 42)],
  'image-changed': [
    /checksum mismatch within the \d+ bytes that begin at byte 0/,
    (v) => v.write(50_000, Buffer.from([1, 2, 3])),
  ],
  'image-link': [/no regular file/, (v) => v.inPlaceOf(v.image, (path) => symlinkSync(secret(), path))],
  'image-pipe': [/no regular file/, (v) => v.inPlaceOf(v.image, (path) => execFileSync('mkfifo', [path]))],
  'image-directory': [/no regular file/, (v) => v.inPlaceOf(v.image, (path) => mkdirSync(path))],
  'image-device': [
    /no regular file/,
    (v) => v.inPlaceOf(v.image, (path) => execFileSync('mknod', [path, 'c', '1', '5'])),
  ],
  'image-raw': [
    /is not a qcow2 image/,
    async (v) => {
      writeFileSync(v.image, Buffer.alloc(1 << 20, 7));
      await v.sealImage();
    },
  ],
  'image-secret': [
    /is not a qcow2 image/,
    async (v) => {
      v.inPlaceOf(v.image, (path) => linkSync(secret(), path));
      await v.sealImage();
    },
  ],
  'header-version': [/qcow2 image of version 2/, (v) => v.forgeHeader(4, u32(2))],
  'header-backing': [
    /is based on|plain file name|not the name/,
    async (v) => {
      const name = Buffer.from(secret());
      v.write(2048, name);
      v.write(8, Buffer.concat([u64(2048n), u32(name.length)]));
      await v.sealImage();
    },
  ],
  'header-backing-far': [/backing|name/, (v) => v.forgeHeader(8, Buffer.concat([u64(1n << 62n), u32(9)]))],
  'header-backing-none': [/is based on nothing, and the manifest says/, (v) => v.forgeHeader(8, Buffer.alloc(12))],
  'header-clusters': [/has clusters of 2\^63 bytes/, (v) => v.forgeHeader(20, u32(63))],
  'header-size': [/has a device of \d+ bytes/, (v) => v.forgeHeader(24, u64((1n << 63n) + 4096n))],
  'header-encrypted': [/is encrypted/, (v) => v.forgeHeader(32, u32(2))],
  'header-snapshots': [/has internal snapshots/, (v) => v.forgeHeader(60, u32(60_000))],
  'header-data-file': [/has its data in another file/, (v) => v.forgeHeader(72, u64(4n))],
  'header-unknown': [/has unknown features/, (v) => v.forgeHeader(72, u64(1n << 40n))],
  'tables-far': [/qemu-img/, (v) => v.forgeHeader(40, u64(1n << 50n))],
  'counts-far': [/qemu-img/, (v) => v.forgeHeader(48, u64(1n << 50n))],
  'counts-many': [/qemu-img/, (v) => v.forgeHeader(56, u32(0x7fff_ffff))],
};

const repository = (...names: string[]): string => workspace.path('backups', ...names);
let history: BackupHistory;

before(async () => {
  workspace = new Workspace('repository-kinds');
  writeFileSync(workspace.path('secret'), SECRET, { mode: 0o600 });
  history = await BackupHistory.begin(workspace.directory, seededRandom('kinds of repositories'));
  await history.add();
  await history.add(40);
  const [full, delta] = history.points.map(({ backup }) => backup);
  assert.ok(full !== undefined && delta !== undefined);
  const forge = (volumeId: string): Forgery => {
    const directory = repository(volumeId);
    mkdirSync(directory, { mode: 0o700 });
    const forgery = new Forgery(directory, volumeId, full, delta);
    for (const backup of [full, delta]) {
      copyFileSync(imagePathOf(backup), forgery.path(backup.manifest.image.file));
      forgery.seal({ ...backup.manifest, volume: forgery.ownOf(backup) }, backup.name);
    }
    return forgery;
  };
  for (const volumeId of SOUND) forge(volumeId);
  for (const [name, [, breaks]] of Object.entries(KINDS)) await breaks(forge(name));
  rmSync(repository('vol-1'), { recursive: true });
});
after(() => workspace.dispose());

const run = (t: TestContext, ...args: string[]) =>
  runCommand(t, args, { BLOCKDELTA_RUNTIME_DIR: workspace.path('runtime') });

/** Names, kinds and sizes of all files of a volume. */
function filesOf(volumeId: string): string[] {
  return readdirSync(repository(volumeId)).map((name) => {
    const path = repository(volumeId, name);
    return `${name} ${existsSync(path) ? statSync(path).size : 'leads nowhere'}`;
  });
}

function assertPlain(output: string): void {
  assert.doesNotMatch(output, /internal error|^ +at /im);
  assert.ok(!output.includes(SECRET), output);
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what must not be there
  assert.doesNotMatch(output, /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/);
  assert.equal(readFileSync(secret(), 'utf8'), SECRET);
}

test(`H29: verify names what is wrong with each of ${Object.keys(KINDS).length} broken volumes, and finds nothing wrong with a sound one`, async (t) => {
  const { code, stdout, stderr } = await run(t, 'verify', repository(), '--json');
  assert.equal(code, 5, stderr);
  assertPlain(stdout + stderr);
  const { problems } = JSON.parse(stdout) as { problems: { path: string; found: string }[] };
  for (const [name, [says]] of Object.entries(KINDS)) {
    const found = problems.filter(({ path }) => path.startsWith(`${repository(name)}/`));
    const texts = found.map((problem) => problem.found).join('\n');
    assert.match(texts, says, name);
  }
  for (const name of SOUND) {
    assert.ok(problems.every(({ path }) => !path.startsWith(`${repository(name)}/`)));
  }
});

test('the command backups lists sound backups, and says what cannot be read', async (t) => {
  const { code, stdout, stderr } = await run(t, 'backups', repository());
  assert.equal(code, 5, stderr);
  assertPlain(stdout + stderr);
  for (const name of SOUND) assert.match(stdout, new RegExp(name));
});

test('a restore of a broken backup writes nothing and says why, and the backup below can be restored', async () => {
  const signal = new AbortController().signal;
  const [first] = history.points;
  const path = workspace.path('restored');
  const { repository: opened } = history;
  const restore = async (volumeId: string, snapshotId: string): Promise<void> => {
    const chosen = await chooseBackup(opened, { volumeId, snapshotId });
    await assertIntact(chosen, { signal });
    await restoreToFile(chosen, { path, replace: false }, { signal });
  };
  for (const [index, name] of Object.keys(KINDS).entries()) {
    if (!isNightly && index % 4 > 0) continue;
    const failure = await restore(name, 'snap-2').then(
      () => 'restored',
      (thrown: unknown) => messageOf(thrown),
    );
    if (name !== 'volume-other') assert.notEqual(failure, 'restored', name);
    assert.ok(!failure.includes('internal error'), `${name}: ${failure}`);
    rmSync(path, { force: true });
  }
  for (const name of [...SOUND, 'image-changed', 'manifest-empty', 'header-backing']) {
    await restore(name, 'snap-1');
    assert.ok(readFileSync(path).equals(first?.bytes ?? Buffer.alloc(0)), name);
    rmSync(path);
  }
});

test('the command chain prints no chain that is broken, or whose headers name other files', async (t) => {
  const imageOf = (name: string): string => {
    const file = history.points[1]?.backup.manifest.image.file;
    return repository(name, file ?? '');
  };
  for (const name of SOUND) {
    const { code, stdout, stderr } = await run(t, 'chain', imageOf(name));
    assert.equal(code, 0, stderr);
    assertPlain(stdout + stderr);
    assert.match(stdout, new RegExp(`^json:.*${name}/.*snap-2.*${name}/.*snap-1`), name);
  }
  for (const name of [
    'header-backing',
    'header-data-file',
    'base-none',
    'base-circle',
    'manifest-link',
    'snapshot-other',
    'file-above',
  ]) {
    const { code, stdout, stderr } = await run(t, 'chain', imageOf(name));
    assert.ok(code === 4 || code === 5, `${name}: ${stderr}`);
    assertPlain(stdout + stderr);
    assert.equal(stdout, '', name);
  }
});

test('the commands compact and prune leave every broken volume as it is, and change the sound ones', async (t) => {
  const before = new Map(Object.keys(KINDS).map((name) => [name, filesOf(name)]));
  for (const args of [
    ['compact', repository()],
    ['prune', repository(), '--keep-last', '1'],
  ]) {
    const { code, stdout, stderr } = await run(t, ...args);
    assert.equal(code, 5, stderr);
    assertPlain(stdout + stderr);
    for (const [name, files] of before) {
      const now = filesOf(name).filter((file) => !file.startsWith('.lock '));
      assert.deepEqual(now, files, name);
    }
    for (const name of SOUND) {
      const manifests = readdirSync(repository(name)).filter((file) => file.endsWith('.json'));
      assert.equal(manifests.length, args[0] === 'prune' ? 1 : 2, name);
      assert.ok(manifests.some((file) => file.includes('snap-2@1.')));
    }
  }
});
