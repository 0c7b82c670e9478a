/** Cgroups of pods as a kubelet makes them, and the limits that a device has in them. */
import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { majorOf, minorOf } from '../../src/base/system/mountinfo.js';

const CGROUP_ROOT = '/sys/fs/cgroup';

/** A pod's cgroup below those of the kubelet, with the io controller on. */
export function makePodCgroup(...names: string[]): string {
  let path = CGROUP_ROOT;
  for (const name of names) {
    writeFileSync(join(path, 'cgroup.subtree_control'), '+io');
    path = join(path, name);
    mkdirSync(path, { recursive: true });
  }
  return path;
}

/** What io.max says of the device; empty: no limits. */
export function limitsOf(cgroup: string, device: string): string {
  const { rdev } = statSync(device);
  const number = `${majorOf(rdev)}:${minorOf(rdev)}`;
  const lines = readFileSync(join(cgroup, 'io.max'), 'utf8').split('\n');
  return lines.find((line) => line.startsWith(`${number} `))?.slice(number.length + 1) ?? '';
}
