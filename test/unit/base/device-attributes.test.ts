import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sizeOfDeviceAt } from '../../../src/base/system/device-attributes.js';

test('what is no block device is a SystemError that names the path', async () => {
  for (const path of ['/proc/self/exe', '/dev/null']) {
    await assert.rejects(sizeOfDeviceAt(path), { name: 'SystemError', code: 'ENXIO', syscall: 'stat', path });
  }
});
