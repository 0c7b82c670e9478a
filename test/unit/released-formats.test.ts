/**
 * What earlier versions promised is still there, and what they wrote down can still be read: all that needs no root.
 * test/integration/plugin/upgrade.test.ts does the same with whole nodes. docs/engineering/formats.md and docs/compatibility.md say what may
 * change, and how.
 */
import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { nodeKey, nodeKeyOf } from '../../src/base/csi/handles.js';
import { packageVersion } from '../../src/base/version.js';
import { poolUuidIn } from '../../src/driver/backends/reflink/pool-layout.js';
import { checkoutText } from '../support/checkout-text.js';
import { runCommand } from '../support/command.js';
import { isReleased, type Promises, promises, settingsIn, settingsMean } from '../support/promised-names.js';
import { digestOf, missingIn, RELEASED_NODE_ID, type Release, releases, unpackBackups } from '../support/released.js';
import { thinAnswers, unpackThin } from '../support/released-thin.js';
import { temporaryDirectory } from '../support/temporary.js';

const read = (release: Release, name: string): string => readFileSync(release.path(name), 'utf8');
const promised = (release: Release): Promises => JSON.parse(read(release, 'promises.json'));
const VALUES = 'values of settings.env';

/** What has been retired as docs/compatibility.md says: `<kind>: <name>`, and the version that announced it. */
const RETIRED: Readonly<Record<string, string>> = {};

test('there are fixtures of a released version', () => assert.ok(releases.length > 0));

for (const release of releases) {
  const { version } = release;

  test(`everything that ${version} promised by name is there and means the same`, async () => {
    const now = await promises();
    const broken = Object.entries(promised(release))
      .filter(([kind]) => kind !== VALUES)
      .flatMap(([kind, names]) =>
        Object.entries(names)
          .filter(([name, was]) => now[kind]?.[name] !== was && !(`${kind}: ${name}` in RETIRED))
          .map(([name, was]) => {
            const is = now[kind]?.[name];
            return `${kind}: '${name}' was '${was}' and ${is === undefined ? 'is gone' : `is '${is}'`}`;
          }),
      );
    const remedy = isReleased(version)
      ? `keep what ${version} promised, or follow docs/compatibility.md`
      : `${version} is not released yet: record it by scripts/make-release-fixtures promises`;
    assert.equal(broken.join('\n'), '', `${broken.join('\n')}\n${remedy}`);
  });

  test(`a node takes every setting of ${version}, and takes it for the same`, () => {
    const settings = settingsIn(release.path('settings.env'));
    const names = Object.keys(promised(release)['settings of serve'] ?? {});
    const remedy = `each setting has a line in ${release.path('settings.env')}`;
    assert.deepEqual(Object.keys(settings).sort(), names.sort(), remedy);
    const values = settingsMean(settings);
    const was = promised(release)[VALUES] as unknown as string[];
    assert.deepEqual(
      was.filter((value) => !values.includes(value)),
      [],
    );
  });

  test(`handles of ${version} name their node`, () => {
    const { ids } = release.node();
    for (const id of [ids.chain, ids.first, ids.group]) assert.equal(nodeKeyOf(id), nodeKey(RELEASED_NODE_ID));
  });

  test(`the ledger, the bookmark and the lists of a thin pool of ${version} say what they said`, () => {
    const directory = temporaryDirectory();
    unpackThin(release, directory);
    assert.deepEqual(thinAnswers(directory), JSON.parse(read(release, 'thin.json')));
  });

  test(`backups of ${version} are listed, verified and restored`, async (t) => {
    const directory = unpacked(release);
    const { stdout } = await succeeds(t, 'backups', directory, '--json');
    const [volume] = JSON.parse(stdout);
    const { ids, contents, fields } = release.node();
    assert.deepEqual(missingIn(JSON.parse(stdout), fields['backups']), []);
    assert.equal(volume.volume, ids.chain);
    const made = volume.backups.map((each: Record<string, string>) => [each['snapshot'], each['method']]);
    assert.deepEqual(made, [
      [ids.first, 'full'],
      [ids.second, 'delta'],
      [ids.third, 'delta'],
    ]);
    await succeeds(t, 'verify', directory);
    for (const snapshot of [ids.second, ids.third]) {
      const file = join(temporaryDirectory(), 'restored');
      await succeeds(t, 'restore', directory, '--snapshot', snapshot, '--to', file);
      assert.equal(digestOf(file), contents[snapshot]);
    }
  });
}

test('the fixtures of a version that is not released yet have all that it promises', async () => {
  const release = releases.find(({ version }) => version === packageVersion());
  if (isReleased(packageVersion())) return;
  assert.ok(release !== undefined, 'make them: scripts/make-release-fixtures');
  const { [VALUES]: _values, ...recorded } = promised(release);
  assert.deepEqual(await promises(), recorded, 'record it: scripts/make-release-fixtures promises');
});

test('the layout of a pool that a newer version has made is refused with both versions', () => {
  assert.equal(poolUuidIn('some-uuid 1', '/pool'), 'some-uuid');
  assert.throws(
    () => poolUuidIn('some-uuid 2', '/pool'),
    /the pool in \/pool .* has version 2 and this plugin knows 1: .* run that version, or a newer one/,
  );
});

test('a manifest that a newer version has made is refused with both versions and no word of damage', async (t) => {
  const [release] = releases;
  assert.ok(release !== undefined);
  const directory = unpacked(release);
  const files = readdirSync(directory, { recursive: true, encoding: 'utf8' });
  for (const name of files.filter((each) => each.endsWith('.json'))) {
    const file = join(directory, name);
    writeFileSync(file, readFileSync(file, 'utf8').replace('"version": 1', '"version": 2'));
  }
  const target = join(temporaryDirectory(), 'restored');
  const { code, stderr } = await runCommand(t, ['restore', directory, '--to', target]);
  assert.notEqual(code, 0);
  assert.match(
    stderr,
    /has version 2, and this program reads version 1; use the version of blockdelta that has made it/,
  );
});

test('docs/engineering/formats.md has every fixture directory, and names the script that makes them', () => {
  const text = checkoutText('docs/engineering/formats.md');
  assert.ok(text.includes('scripts/make-release-fixtures'));
  for (const { version } of releases) assert.ok(text.includes(version));
});

function unpacked(release: Release): string {
  const directory = join(temporaryDirectory(), 'backups');
  mkdirSync(directory, { mode: 0o700 });
  unpackBackups(release, directory);
  return directory;
}

async function succeeds(t: TestContext, ...args: string[]): Promise<{ stdout: string }> {
  const { code, stdout, stderr } = await runCommand(t, args);
  assert.equal(code, 0, `${args.join(' ')}: ${stderr}`);
  return { stdout };
}
