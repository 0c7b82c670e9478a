/**
 * Increments under load: a few of raw block volumes in a plain run, and at night thirty of each kind of volume on each kind of pool.
 * Drivers that lose something fail.
 */
import assert from 'node:assert/strict';
import { soakChecks } from '../../src/tools/conformance/checks/soak.js';
import { assertConforms } from '../support/conformance-run.js';
import { isNightly, oneOfEach } from '../support/nightly.js';
import { runPlugin, test } from '../support/running-plugin.js';
import { after as afterCall, type Defect } from './fake/defect.js';
import { BLOCK_BYTES, blockOf, differingBlocks } from './fake/disk.js';
import { judge } from './fake/prove.js';

/** The machine may be slow and busy: only what hangs takes so long. */
const TIMEOUT_MS = 300_000;
const FAKE = { checks: soakChecks(4, [1, 2]), timeoutMs: TIMEOUT_MS, volumeSizeBytes: 8 << 20 };
const CHECKS = isNightly ? soakChecks(30) : soakChecks(3, [100, 500]);
const volumeSizeBytes = isNightly ? null : 32 << 20;

const running = runPlugin('conformance-soak', { pools: { xfs: 'xfs', btrfs: 'btrfs' }, poolSizeMiB: 6144 });

const KINDS = ['xfs', 'btrfs'].flatMap((pool) => [
  { pool, access: 'block', fileSystem: '' } as const,
  ...['ext4', 'xfs', 'btrfs'].map((fileSystem) => ({ pool, access: 'mount', fileSystem }) as const),
]);

for (const { pool, access, fileSystem } of oneOfEach(KINDS, ({ access }) => access)) {
  test(`increments of ${fileSystem || 'raw block'} volumes that are written to are complete on a pool on ${pool}`, () =>
    assertConforms(
      running,
      {
        access: [access],
        only: [`soak.${access}`],
        parameters: { pool },
        mountFileSystem: fileSystem,
        volumeSizeBytes,
        timeoutMs: TIMEOUT_MS,
      },
      [],
      CHECKS,
    ));
}

test('a driver that loses nothing passes', async () => {
  const [result, ...others] = await judge({}, ['soak.block'], FAKE);
  assert.deepEqual([result?.result, others], ['passed', []], result?.detail ?? '');
  const figures = Object.fromEntries(result?.figures.map(({ name, value }) => [name, value]) ?? []);
  assert.equal(figures['increments'], 4);
  assert.equal(figures['bytes missed'], 0);
  assert.ok((figures['bytes compared'] ?? 0) >= (1 + 4) * FAKE.volumeSizeBytes);
});

test('volumes that are too small for the load are skipped, with the size that it needs', async () => {
  const [result] = await judge({}, ['soak.block'], { ...FAKE, volumeSizeBytes: 4 << 20 });
  assert.equal(result?.result, 'skipped');
  assert.match(
    result?.detail ?? '',
    /^volumes of 4194304 bytes are too small, this check needs at least 8388608: choose a /,
  );
});

const ZEROS = Buffer.alloc(BLOCK_BYTES);
const LOSSES: Readonly<Record<string, Defect>> = {
  'leaves the last entry out': afterCall('entries', (entries) => entries.slice(0, -1)),
  'leaves out what is zeros now': afterCall('blocks', (blocks, { target }) =>
    blocks.filter((block) => !blockOf(target.bytes, block).equals(ZEROS)),
  ),
  'lists what changed since the snapshot before, whichever the base is': afterCall(
    'blocks',
    (blocks, { base, target }, state) => {
      const previous = state.snapshotsOf(target.volumeId).findLast(({ sequence }) => sequence < target.sequence);
      return base === null || previous === undefined ? blocks : differingBlocks(target.bytes, previous.bytes);
    },
  ),
};

for (const [does, defect] of Object.entries(LOSSES)) {
  test(`a driver that ${does} fails`, async () => {
    const [result] = await judge(defect, ['soak.block'], FAKE);
    assert.equal(result?.result, 'failed');
    assert.match(
      result?.detail ?? '',
      /^increment \d+, from .*: expected a copy of the snapshot, found \d+ bytes of sectors/,
    );
    assert.ok((result?.figures.find(({ name }) => name === 'bytes missed')?.value ?? 0) > 0);
  });
}
