/**
 * What a real udevd does with volumes that contain LVM, RAID, LUKS, swap or btrfs signatures: nothing with the
 * shipped rule. Without the rule it activates them, which proves in nightly runs that the tests detect activation.
 */

import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { basename, join } from 'node:path';
import { after, before } from 'node:test';
import { newVolumeId, nodeKey } from '../../src/base/csi/handles.js';
import { packagePath } from '../../src/base/package-root.js';
import { releaseLoop } from '../../src/driver/backends/loop-release.js';
import type { NativePool } from '../../src/driver/native/pool.js';
import { luksHeader, partitionTable } from '../support/foreign-signatures.js';
import { attachLoop, sparseFile } from '../support/loops.js';
import { sharedThreads } from '../support/shared-threads.js';
import { Workspace } from '../support/workspace.js';
import { isGuest, nightlyTest, test } from './guest.js';

const RULE = '/etc/udev/rules.d/56-blockdelta.rules';
const UDEVD = '/lib/systemd/systemd-udevd';
const SIZE = 128n << 20n;
const FSID = '0b10cde1-7a00-4000-8000-00000000b7f5';
const LUKS_UUID = '0b10cde1-7a00-4000-8000-00000000104c';
const SWAP_UUID = '0b10cde1-7a00-4000-8000-000000005a3b';
const GROUP = 'tenantgroup';
const ARRAY = '/dev/md99';

const sh = (program: string, ...args: string[]): string =>
  execFileSync(program, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
const kernelLog = (): string => sh('busybox', 'dmesg');
/** A link of udev's is made and removed behind the events that `settle` waits for. */
const settle = (): string => sh('udevadm', 'settle', '--timeout=120');

let workspace: Workspace;
let native: NativePool;
const images = new Map<string, string>();

/** An image with that signature, made on a loop device before udevd runs. */
function image(name: string, make: (device: string, path: string) => void): void {
  const path = sparseFile(workspace.path(`${name}.image`), SIZE);
  const device = attachLoop(path);
  make(device, path);
  sh('losetup', '-d', device);
  images.set(name, path);
}

/** A command of LVM that neither asks udevd nor waits for it. */
function lvm(command: string, ...words: string[]): void {
  const settings = ['devices/obtain_device_list_from_udev', 'activation/udev_sync'];
  const config = [...settings, 'activation/udev_rules'].map((name) => `${name}=0`).join(' ');
  sh('lvm', command, '--config', config, '-q', ...words);
}

function makeImages(): void {
  image('lvm', (device) => {
    lvm('pvcreate', device);
    lvm('vgcreate', GROUP, device);
    lvm('lvcreate', ...'-y -Wn -Zn -an -l 2 -n tenant'.split(' '), GROUP);
  });
  image('md', (device) => {
    const options = ['--run', '--force', '--level=1', '--raid-devices=1', '--metadata=1.2'];
    sh('mdadm', '--create', ARRAY, ...options, device);
    sh('mdadm', '--stop', ARRAY);
  });
  image('partitions', (_device, path) => writeFileSync(path, partitionTable(), { flag: 'r+' }));
  image('luks', (_device, path) => writeFileSync(path, luksHeader(LUKS_UUID), { flag: 'r+' }));
  image('swap', (device) => sh('mkswap', '-U', SWAP_UUID, device));
  image('btrfs', (device) => sh('mkfs.btrfs', '-q', '-U', FSID, device));
}

interface Volume {
  name: string;
  path: string;
  device: string;
}

/** All images as attached volumes of a pool, and what udev has made of them. */
async function attachAll(): Promise<Volume[]> {
  const volumes: Volume[] = [];
  for (const [name, source] of images) {
    const path = join(workspace.path('volumes'), newVolumeId(nodeKey('guest')));
    copyFileSync(source, path);
    const request = { backingPath: path, readOnly: false, label: basename(path) };
    const { device } = await native.run('loopAttach', request);
    volumes.push({ name, path, device: device.path });
  }
  settle();
  const devices = volumes.map(({ device }) => device);
  sh('udevadm', 'trigger', '--settle', '--action=change', ...devices);
  settle();
  return volumes;
}

async function detachAll(volumes: readonly Volume[]): Promise<void> {
  spawnSync('lvm', ['vgchange', '-an', GROUP], { env: { ...process.env, DM_DISABLE_UDEV: '' } });
  for (const name of arrays()) spawnSync('mdadm', ['--stop', `/dev/${name}`]);
  settle();
  for (const { path } of volumes) {
    await releaseLoop(native, path);
    rmSync(path);
  }
  settle();
}

const arrays = (): string[] => readFileSync('/proc/mdstat', 'utf8').match(/^md\w+/gm) ?? [];

const properties = (device: string): string => sh('udevadm', 'info', '--query=property', device);

/** Links to the device that stand for what is inside of it. */
function links(device: string): string[] {
  if (!existsSync('/dev/disk')) return [];
  return ['by-uuid', 'by-label', 'by-partuuid', 'by-id']
    .map((directory) => join('/dev/disk', directory))
    .filter((directory) => existsSync(directory))
    .flatMap((directory) => readdirSync(directory).map((name) => join(directory, name)))
    .filter((link) => existsSync(link) && realpathSync(link) === device);
}

/** Whatever the host has taken up of the volumes. */
function activated(volumes: readonly Volume[], logBefore: string): string[] {
  const log = kernelLog().slice(logBefore.length);
  const found = volumes.flatMap(({ name, device }) => [
    ...links(device).map((link) => `${name}: ${link}`),
    ...(properties(device).match(/^ID_(FS|PART)_\w+=.+$/gm) ?? []).map((line) => `${name}: ${line}`),
    ...(new RegExp(`BTRFS.*${device} `).test(log) ? [`${name}: scanned as btrfs`] : []),
    ...readdirSync(`/sys/block/${basename(device)}`)
      .filter((entry) => entry.startsWith(`${basename(device)}p`))
      .map((entry) => `${name}: partition ${entry}`),
  ]);
  if (sh('dmsetup', 'ls').includes(GROUP)) found.push('lvm: volume group is active');
  return [...found, ...arrays().map((name) => `md: ${name} runs`)];
}

function useRule(isInitialized: boolean): void {
  mkdirSync('/etc/udev/rules.d', { recursive: true });
  if (isInitialized) copyFileSync(packagePath('deploy/udev/56-blockdelta.rules'), RULE);
  else rmSync(RULE, { force: true });
  sh('udevadm', 'control', '--reload');
}

before(() => {
  if (!isGuest) return;
  const unpacked = process.env['BLOCKDELTA_GUEST_UDEV'] ?? '';
  if (unpacked !== '') {
    sh('sh', '-c', `tar -C ${unpacked} -cf - . | tar -C / --keep-directory-symlink -xf -`);
  }
  workspace = new Workspace('foreign');
  native = sharedThreads();
  mkdirSync(workspace.path('volumes'));
  for (const module of ['md-mod', 'raid1']) sh('modprobe', module);
  makeImages();
  mkdirSync('/run/udev', { recursive: true });
  sh(UDEVD, '--daemon');
});

after(async () => {
  if (!isGuest) return;
  spawnSync('udevadm', ['control', '--exit']);
  workspace.dispose();
});

test('H5: the host activates nothing inside a volume, of a file or thin, with the rule', async () => {
  useRule(true);
  // The file system whose id the tenant has copied is the host's own, and in use.
  const own = workspace.path('own.image');
  copyFileSync(images.get('btrfs') as string, own);
  mkdirSync(workspace.path('own'));
  sh('mount', '-o', 'loop', own, workspace.path('own'));
  const log = kernelLog();
  const volumes = await attachAll();
  // And a device under the names that thin volumes have, with swap in it.
  const lower = volumes.find(({ name }) => name === 'swap') as Volume;
  const name = `blockdelta-${basename(lower.path)}`;
  const uuid = `BLOCKDELTA-0123-${basename(lower.path)}`;
  const table = `0 ${SIZE / 512n} linear ${lower.device} 0`;
  sh('dmsetup', 'create', name, '--uuid', uuid, '--table', table);
  const number = sh('dmsetup', 'info', '-c', '--noheadings', '-o', 'blkdevname', name).trim();
  const thin = { name: 'thin', path: '', device: `/dev/${number}` };
  settle();
  sh('udevadm', 'trigger', '--settle', '--action=change', thin.device);
  settle();
  const all = [...volumes, thin];
  const found = activated(all, log).filter(
    (line) => !line.includes(`dm-name-${name}`) && !line.includes(`dm-uuid-${uuid}`),
  );
  const ready = all.map(({ device }) => /^SYSTEMD_READY=(.*)$/m.exec(properties(device))?.[1]);
  sh('dmsetup', 'remove', name);
  await detachAll(volumes);
  sh('umount', workspace.path('own'));
  assert.deepEqual(found, []);
  assert.deepEqual(
    ready,
    all.map(() => '0'),
  );
});

nightlyTest('H5: the host activates what tenants have written without the rule', async () => {
  useRule(false);
  const log = kernelLog();
  const volumes = await attachAll();
  const found = activated(volumes, log).join('\n');
  await detachAll(volumes);
  assert.match(found, new RegExp(`by-uuid/${SWAP_UUID}`));
  assert.match(found, new RegExp(`by-uuid/${LUKS_UUID}`));
  assert.match(found, /btrfs: scanned as btrfs/);
  assert.match(found, /lvm: volume group is active/);
  assert.match(found, /md: md\d+ runs/);
});
