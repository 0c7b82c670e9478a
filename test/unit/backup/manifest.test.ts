import assert from 'node:assert/strict';
import { test } from 'node:test';
import { formatManifest, parseManifest } from '../../../src/backup/manifest.js';
import { testManifest } from '../../support/backup-files.js';
import { throwsWith } from '../../support/expect-status.js';
import { seededRandom } from '../../support/random.js';

const full = testManifest('s1', 1);
const delta = testManifest('s2', 2, { snapshotId: 's1', manifest: 'one.json' });

test('a manifest is read as it was written, sizes beyond 2^53 included', () => {
  for (const manifest of [full, delta, { ...full, reason: 'it is the first one' }]) {
    assert.deepEqual(parseManifest(formatManifest(manifest), '/b/one.json'), manifest);
  }
});

test('a manifest with any one bit flipped is refused, and the path is named', () => {
  const text = Buffer.from(formatManifest(delta));
  const random = seededRandom('manifest');
  for (let round = 0; round < 300; round += 1) {
    const bytes = Buffer.from(text);
    const at = random.below(bytes.length);
    bytes[at] = (bytes[at] ?? 0) ^ (1 << random.below(8));
    const damaged = bytes.toString('utf8');
    // White space between the fields is no part of what they say.
    const same = () =>
      JSON.stringify(JSON.parse(damaged)) === JSON.stringify(JSON.parse(text.toString()));
    let isSame = false;
    try {
      isSame = same();
    } catch {
      // Not JSON any more.
    }
    if (!isSame) {
      throwsWith(
        () => parseManifest(damaged, '/b/two.json'),
        'FAILED_PRECONDITION',
        /\/b\/two\.json/,
      );
    }
  }
});

test('a manifest of another version says so', () => {
  const text = formatManifest(full).replace('"version": 1', '"version": 2');
  throwsWith(() => parseManifest(text, '/b/x.json'), 'FAILED_PRECONDITION', /version 2/);
});

test('names of files lead nowhere but beside the manifest', () => {
  for (const file of ['../other', '/etc/passwd', 'nbd:host:1', '', '..']) {
    const text = formatManifest({ ...full, image: { ...full.image, file } });
    throwsWith(() => parseManifest(text, '/b/x.json'), 'FAILED_PRECONDITION', /image\.file/);
  }
});

test('a manifest that is no object, or lacks a field, names what is missing', () => {
  throwsWith(() => parseManifest('[]', '/b/x.json'), 'FAILED_PRECONDITION', /no object/);
  throwsWith(() => parseManifest('{', '/b/x.json'), 'FAILED_PRECONDITION', /not JSON/);
  throwsWith(() => parseManifest('{}', '/b/x.json'), 'FAILED_PRECONDITION', /version/);
});
