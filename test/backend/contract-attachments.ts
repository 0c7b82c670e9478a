/** The part of the backend contract about block devices. */
import assert from 'node:assert/strict';
import { closeSync, constants, openSync, writeSync } from 'node:fs';
import { test } from 'node:test';
import { NativePool } from '../../src/driver/native/pool.js';
import { refused } from '../support/refusal.js';
import { type ContractContext, newVolume, SIZE } from './harness.js';

export function describeAttachments(context: ContractContext): void {
  test('attaching twice gives the same device, and a new backend object finds it', async () => {
    const { backend, harness } = context;
    const volumeId = await context.volume();
    assert.equal(await backend.attachments.find(volumeId), null);
    const device = await backend.attachments.attach(volumeId, { readOnly: false });
    assert.deepEqual([device.readOnly, device.sizeBytes], [false, SIZE]);
    assert.deepEqual(await backend.attachments.attach(volumeId, { readOnly: false }), device);
    const { backend: next } = await harness.reopen();
    assert.deepEqual(await next.attachments.find(volumeId), device);
    if (next.attachments.findAndLook !== undefined) {
      const around = { paths: [device.devicePath], guarded: null, devicePath: null };
      const found = await next.attachments.findAndLook(volumeId, around);
      assert.deepEqual(found?.attachment, device);
      assert.deepEqual([found?.look.node?.rdev, found?.look.paths[0]?.resolved], [device.rdev, device.devicePath]);
    }
    await backend.attachments.detach(volumeId);
    assert.equal(await backend.attachments.find(volumeId), null);
    await backend.attachments.detach(volumeId);
  });

  test('an attached device grows with its volume while it is open', async () => {
    const { backend } = context;
    const volumeId = await context.volume();
    const { devicePath } = await backend.attachments.attach(volumeId, { readOnly: false });
    const fd = openSync(devicePath, constants.O_RDWR | constants.O_EXCL);
    assert.equal(await backend.volumes.expand(volumeId, 2n * SIZE), 2n * SIZE);
    writeSync(fd, 'x', Number(SIZE) + 4096);
    closeSync(fd);
    const found = await backend.attachments.find(volumeId);
    assert.deepEqual([found?.devicePath, found?.sizeBytes], [devicePath, 2n * SIZE]);
  });

  test('two volumes have two devices', async () => {
    const { backend } = context;
    const first = await backend.attachments.attach(await context.volume(), { readOnly: false });
    const second = await backend.attachments.attach(await context.volume(), { readOnly: false });
    assert.notEqual(first.devicePath, second.devicePath);
  });

  test('a device that is temporarily read-only can be attached and expanded', async () => {
    const { backend } = context;
    const native = new NativePool(1);
    const volumeId = await context.volume();
    const { devicePath } = await backend.attachments.attach(volumeId, { readOnly: false });
    await native.run('setDeviceReadOnly', { devicePath, readOnly: true });
    const again = await backend.attachments.attach(volumeId, { readOnly: false });
    assert.deepEqual([again.devicePath, again.readOnly], [devicePath, true]);
    assert.equal(await backend.volumes.expand(volumeId, 2n * SIZE), 2n * SIZE);
    assert.equal((await backend.attachments.find(volumeId))?.readOnly, true);
    await native.run('setDeviceReadOnly', { devicePath, readOnly: false });
    const fd = openSync(devicePath, 'r+');
    writeSync(fd, 'x', Number(SIZE) + 4096);
    closeSync(fd);
    await native.close();
  });

  test('a volume is attached read-only on request, and not read-only and writable at once', async () => {
    const { backend } = context;
    const volumeId = await context.volume();
    const device = await backend.attachments.attach(volumeId, { readOnly: true });
    assert.equal(device.readOnly, true);
    const fd = openSync(device.devicePath, 'r+');
    assert.throws(() => writeSync(fd, 'x', 0), { code: 'EPERM' });
    closeSync(fd);
    await refused(backend.attachments.attach(volumeId, { readOnly: false }), 'FAILED_PRECONDITION');
  });

  test('an open device is not detached, and its volume is not deleted', async () => {
    const { backend } = context;
    const volumeId = await context.volume();
    const { devicePath } = await backend.attachments.attach(volumeId, { readOnly: false });
    const fd = openSync(devicePath, constants.O_RDWR | constants.O_EXCL);
    await refused(backend.attachments.detach(volumeId), 'FAILED_PRECONDITION', /in use/);
    await refused(backend.volumes.delete(volumeId), 'FAILED_PRECONDITION', /in use/);
    assert.equal((await backend.attachments.find(volumeId))?.devicePath, devicePath);
    assert.ok((await backend.list()).volumes.some(({ id }) => id === volumeId));
    closeSync(fd);
    await backend.volumes.delete(volumeId);
    assert.equal(await backend.attachments.find(volumeId), null);
  });

  test('attaching a volume that does not exist fails', async () => {
    await refused(context.backend.attachments.attach(newVolume(), { readOnly: false }), 'FAILED_PRECONDITION', /lost/);
    assert.equal(await context.backend.attachments.find(newVolume()), null);
    await context.backend.attachments.detach(newVolume());
  });

  test('a volume can be attached, written and detached while its snapshot is restored elsewhere', async () => {
    const { backend, harness } = context;
    const [volumeId, copy] = [await context.volume(), newVolume()];
    await harness.write(volumeId, 0, Buffer.alloc(4096, 1));
    const snapshotId = await context.snapshot(volumeId);
    await backend.volumes.create(copy, SIZE, { snapshotId });
    await harness.write(copy, 0, Buffer.alloc(4096, 2));
    await harness.write(volumeId, 0, Buffer.alloc(4096, 3));
    assert.equal((await harness.read(copy))[0], 2);
    assert.equal((await harness.read(volumeId))[0], 3);
  });
}
