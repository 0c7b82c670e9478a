/**
 * Says which loop devices, device-mapper devices, mounts and processes of ours are left on the machine;
 * exits 1 if any are.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';

const MARK = /blockdelta-[a-z0-9-]+-[A-Za-z0-9]{6}/;

function read(path) {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

function loops() {
  return readdirSync('/sys/block')
    .map((name) => ({ name, file: read(`/sys/block/${name}/loop/backing_file`).trim() }))
    .filter(({ file }) => MARK.test(file))
    .map(({ name, file }) => `loop device /dev/${name} on ${file}`);
}

/** Pools and volumes are named so, and so are the devices of tests. */
function mappedDevices() {
  return readdirSync('/sys/block')
    .map((name) => ({ name, mapped: read(`/sys/block/${name}/dm/name`).trim() }))
    .filter(({ mapped }) => mapped.startsWith('blockdelta-'))
    .map(({ name, mapped }) => `device-mapper device /dev/${name}, ${mapped}`);
}

function mounts() {
  return read('/proc/self/mountinfo')
    .split('\n')
    .map((line) => line.split(' ')[4] ?? '')
    .filter((mountPoint) => MARK.test(mountPoint))
    .map((mountPoint) => `mount at ${mountPoint}`);
}

function processes() {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .map((pid) => ({ pid, environment: read(`/proc/${pid}/environ`) }))
    .filter(({ environment }) => /(^|\0)CSI_ENDPOINT=unix:\/\/[^\0]*\/blockdelta-/.test(environment))
    .map(({ pid }) => `process ${pid}: ${read(`/proc/${pid}/cmdline`).replaceAll('\0', ' ')}`);
}

export function leftBehind() {
  return [...loops(), ...mappedDevices(), ...mounts(), ...processes()];
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const left = leftBehind();
  if (left.length > 0) {
    console.log(`left behind:\n  ${left.join('\n  ')}`);
    process.exitCode = 1;
  }
}
