/** The check of mounts, of file systems that have stopped after an error: no test can make every kernel show one. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseMountInfo } from '../../../src/base/system/mountinfo.js';
import { DOCTOR_CHECKS, type DoctorContext } from '../../../src/driver/inspection/doctor-checks.js';

async function found(mountOptions: string, superOptions: string): Promise<string[]> {
  const mounts = parseMountInfo(`30 20 7:3 / /staged ${mountOptions} - ext4 /dev/loop3 ${superOptions}\n`);
  const place = { volumeId: 'vol-1', stagingPath: '/staged', resolvedPath: null, capability: { accessType: 'mount' } };
  const attached = [{ pool: 'main', volumeId: 'vol-1', path: '/dev/loop3', readOnly: false, mounts }];
  const node = { catalogue: { stagings: [place], publications: [] }, mounts, attached };
  const check = DOCTOR_CHECKS.find(({ name }) => name === 'mounts') ?? assert.fail();
  const { findings } = await check.run({ node } as unknown as DoctorContext);
  return findings.map((finding) => finding.found);
}

test('an ext4 that became read-only after an error is found, and one that was mounted so is not', async () => {
  const stopped = ['volume vol-1: its ext4 at /staged has shut down or become read-only after an error'];
  assert.deepEqual(await found('rw,relatime', 'ro,errors=remount-ro'), stopped);
  assert.deepEqual(await found('rw,relatime', 'rw,emergency_ro'), stopped);
  assert.deepEqual(await found('rw,relatime', 'rw,shutdown'), stopped);
  assert.deepEqual(await found('rw,relatime', 'rw'), []);
  assert.deepEqual(await found('ro,relatime', 'ro'), []);
});
