/** The size that the checks assume a volume to have. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { SuiteOptions } from '../../../src/tools/conformance/options.js';
import { Volumes, type VolumesDependencies } from '../../../src/tools/conformance/volumes.js';

const options: Partial<SuiteOptions> = { mountFileSystem: 'xfs', volumeSizeBytes: null, workDirectory: '/work' };
const volumes = new Volumes({ options, runName: 'run' } as VolumesDependencies, 'check');
const MIB = 2 ** 20;

test('a volume has the size that the driver reports, or else the size that was asked for', () => {
  const asked = 5 * MIB;
  for (const [spec, capacityBytes, expected] of [
    [{ access: 'block', sizeBytes: asked }, asked + MIB, asked + MIB],
    [{ access: 'block', sizeBytes: asked }, 0, asked],
    [{ access: 'block' }, 0, 64 * MIB],
    [{ access: 'mount' }, 0, 320 * MIB],
  ] as const) {
    const made = volumes.adopt('name', spec, { volume_id: 'v', capacity_bytes: `${capacityBytes}` });
    assert.equal(made.sizeBytes, expected, JSON.stringify(spec));
  }
});
