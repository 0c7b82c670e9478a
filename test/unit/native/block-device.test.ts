import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deviceSizeBytes } from '../../../src/driver/native/block-device.js';

test('what is no block device is a SystemError that names the call and the path', async () => {
  const path = '/proc/self/exe';
  const wanted = { name: 'SystemError', code: 'ENOTTY', syscall: 'BLKGETSIZE64', path };
  await assert.rejects(deviceSizeBytes(path), wanted);
});
