/**
 * The addon's device calls done with losetup, cp and fsfreeze: for the Node service's tests on a tree
 * where the addon is not built.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, renameSync, rmSync, statSync, truncateSync } from 'node:fs';
import { SystemError } from '../../src/errors.js';
import type { LoopDevice } from '../../src/native/addon.js';
import type { NativeRunner } from '../../src/native/pool.js';

type Request = Record<string, string | bigint | boolean | null>;

export const shellNative = {
  async run(method: string, request: Request): Promise<object> {
    const action = ACTIONS[method];
    if (action === undefined) throw new Error(`${method} is not played by the shell`);
    return action(request);
  },
} as unknown as NativeRunner;

const shell = (command: string, ...args: string[]): string =>
  execFileSync(command, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] }).trim();

function find(path: string): LoopDevice | null {
  if (!existsSync(path)) return null;
  const line = shell('losetup', '-n', '-O', 'NAME,RO', '-j', path).split('\n')[0] ?? '';
  const [name, ro] = line.split(/\s+/);
  if (name === undefined || name === '') return null;
  const { dev, ino, size } = statSync(path, { bigint: true });
  return {
    number: Number(name.slice('/dev/loop'.length)),
    path: name,
    backingDevice: dev,
    backingInode: ino,
    readOnly: ro === '1',
    directIo: false,
    sizeBytes: size,
  };
}

function detach(path: string): object {
  const device = find(path);
  if (device === null) return { detached: false };
  const mounts = shell('sh', '-c', `grep -c ' ${device.path} ' /proc/self/mountinfo || true`);
  if (mounts !== '0') throw new SystemError('EBUSY', 'LOOP_CLR_FD', path, `${path} is busy`);
  shell('losetup', '-d', device.path);
  while (find(path) !== null) shell('sleep', '0.05');
  return { detached: true };
}

const text = (value: unknown): string => String(value);

const ACTIONS: Readonly<Record<string, (request: Request) => object>> = {
  loopAttach: ({ backingPath }) => {
    const path = text(backingPath);
    const created = find(path) === null;
    if (created) shell('losetup', '-f', path);
    return { device: find(path), created };
  },
  loopFind: ({ backingPath }) => ({ device: find(text(backingPath)) }),
  loopDetach: ({ backingPath }) => detach(text(backingPath)),
  setDeviceReadOnly: ({ devicePath, readOnly }) => {
    shell('blockdev', readOnly === true ? '--setro' : '--setrw', text(devicePath));
    return {};
  },
  probeReflink: () => ({ supported: true }),
  createSparseFile: ({ finalPath, sizeBytes }) => {
    shell('truncate', '-s', text(sizeBytes), text(finalPath));
    return {};
  },
  cloneFile: ({ sourcePath, temporaryPath, finalPath, sizeBytes }) => {
    shell('cp', '--reflink=always', text(sourcePath), text(temporaryPath));
    truncateSync(text(temporaryPath), Number(sizeBytes));
    renameSync(text(temporaryPath), text(finalPath));
    return {};
  },
  cutSnapshot: ({ sourcePath, finalPath, loopPath, freezePath }) => {
    if (freezePath !== null) shell('fsfreeze', '-f', text(freezePath));
    if (loopPath !== null) shell('sync', text(loopPath));
    shell('cp', '--reflink=always', text(sourcePath), text(finalPath));
    if (freezePath !== null) shell('fsfreeze', '-u', text(freezePath));
    return { cutTimeNs: BigInt(Date.now()) * 1_000_000n, frozenNs: 0n };
  },
  fileState: ({ path }) => {
    if (!existsSync(text(path))) return { state: null };
    const { dev, ino, size } = statSync(text(path), { bigint: true });
    return {
      state: { device: dev, inode: ino, sizeBytes: size, allocatedBytes: 0n, immutable: false },
    };
  },
  removeFile: ({ path }) => {
    rmSync(text(path), { force: true });
    return { removed: true };
  },
  flush: ({ path }) => {
    shell('sync', text(path));
    return {};
  },
};
