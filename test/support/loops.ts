/** Loop devices and their backing files. */
import { execFileSync } from 'node:child_process';
import { closeSync, openSync, readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { basename } from 'node:path';
import { insteadOf } from '../../src/base/errors.js';
import { toSystemError } from '../../src/base/system/native-result.js';
import { loadAddon } from '../../src/driver/native/addon.js';
import type { NativeRunner } from '../../src/driver/native/pool.js';
import { eventually } from './eventually.js';
import { clearLoop, fileBelowLoop, removeLoopNumber } from './ioctls.js';

/** A new file without blocks. Returns its path. */
export function sparseFile(path: string, sizeBytes: number | bigint): string {
  writeFileSync(path, '');
  truncateSync(path, Number(sizeBytes));
  return path;
}

/** A new sparse file, which must be able to take direct I/O, and its device. */
export async function loopOn(native: NativeRunner, file: string, sizeBytes: bigint): Promise<string> {
  const names = { temporaryPath: `${file}.tmp`, finalPath: file };
  await native.run('createSparseFile', { ...names, sizeBytes });
  const request = { backingPath: file, readOnly: false, label: '' };
  return (await native.run('loopAttach', request)).device.path;
}

/** The new device of a file. A number that refuses discards since its last use, as those of a killed plugin may, is given up. */
export function attachLoop(file: string, ...options: string[]): string {
  const command = ['--find', '--show', ...options, file];
  for (;;) {
    const device = execFileSync('losetup', command, { encoding: 'utf8' }).trim();
    if (!refusesDiscards(device)) return device;
    detachLoop(device);
  }
}

/** The new device of a file, made as the plugin makes those of its volumes. */
export function attachAsPlugin(backingPath: string): string {
  const answer = loadAddon().loopAttach({ backingPath, readOnly: false, label: 'a test' });
  if (!answer.ok) throw toSystemError(answer);
  return answer.device.path;
}

export function loopsOf(backingFile: string): string[] {
  return execFileSync('losetup', ['-n', '-O', 'NAME', '-j', backingFile], { encoding: 'utf8' })
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');
}

/** The file that the device is attached to; see fileBelowLoop. Null if there is none. */
export function fileBelow(device: string): ReturnType<typeof fileBelowLoop> | null {
  try {
    const fd = openSync(device, 'r');
    try {
      return fileBelowLoop(fd);
    } finally {
      closeSync(fd);
    }
  } catch (thrown) {
    return insteadOf(['ENOENT', 'ENXIO'], null)(thrown);
  }
}

/**
 * The path that sysfs shows of the device's file, which needs no answer of its file system; null if the device is not attached.
 *
 * @param device its path or its name
 */
export function backingOf(device: string): string | null {
  try {
    return readFileSync(`/sys/block/${basename(device)}/loop/backing_file`, 'utf8').trim();
  } catch (thrown) {
    return insteadOf(['ENOENT', 'ENXIO', 'ENODEV'], null)(thrown);
  }
}

/**
 * As detachLoop, and waits until the device is gone. Whoever looks at all loop devices, another suite too, may have this one open
 * at the moment, and then it goes when that ends.
 */
export async function detachLoopForSure(device: string): Promise<void> {
  const file = backingOf(device);
  detachLoop(device);
  await eventually(`${device} is detached`, () => file === null || backingOf(device) !== file);
}

/**
 * Detaches a device, if it can be. The plugin has the image of a pool refuse discards, which stays with the
 * number for whoever gets it next: such a number is given up.
 *
 * @param isOurs asked while the device is open, from when on nobody else gets its number
 */
export function detachLoop(device: string, isOurs: () => boolean = () => true): void {
  const number = Number(/^\/dev\/loop(\d+)$/.exec(device)?.[1]);
  let refuses = false;
  try {
    const fd = openSync(device, 'r');
    try {
      if (!isOurs()) return;
      refuses = refusesDiscards(device);
      clearLoop(fd);
    } finally {
      closeSync(fd);
    }
  } catch {
    // Another process has detached it.
  }
  if (!refuses || Number.isNaN(number)) return;
  const control = openSync('/dev/loop-control', 'r+');
  try {
    removeLoopNumber(control, number);
  } catch {
    // Somebody has it by now, or it is detached by its last user only.
  } finally {
    closeSync(control);
  }
}

/** Although its file could take them. */
const refusesDiscards = (device: string): boolean =>
  queueSetting(device, 'discard_max_bytes') === '0' && queueSetting(device, 'discard_max_hw_bytes') !== '0';

function queueSetting(device: string, name: string): string | null {
  try {
    return readFileSync(`/sys/block/${basename(device)}/queue/${name}`, 'utf8').trim();
  } catch {
    return null;
  }
}
