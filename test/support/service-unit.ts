/**
 * The units of deploy/systemd as tests see them: their settings, and command lines that run a program under them without systemd.
 * Settings that no one applies here are refused, so a unit cannot get a limit that no test has.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { packagePath } from '../../src/base/package-root.js';
import { majorOf, minorOf } from '../../src/base/system/mountinfo.js';

export const UNIT_PATH = packagePath('deploy/systemd/blockdelta.service');
export const BACKUP_UNIT_PATH = packagePath('deploy/systemd/blockdelta-backup.service');
const READ_ONLY_ROOT = packagePath('deploy/systemd/read-only-root');
const APPLY_FILTERS = packagePath('test/support/apply-filters.py');
const DEVICES_CGROUP = '/sys/fs/cgroup/devices';

/** How the service manager starts and stops the service; nothing of this limits the running plugin. */
const NO_LIMITS: readonly string[] = [
  'Type',
  'Environment',
  'EnvironmentFile',
  'ExecStart',
  'StateDirectory',
  'StateDirectoryMode',
  'RuntimeDirectory',
  'RuntimeDirectoryMode',
  'RuntimeDirectoryPreserve',
  'KillMode',
  'TimeoutStopSec',
  'Restart',
  'RestartSec',
  'RestartPreventExitStatus',
  'OOMScoreAdjust',
  'TasksMax',
  'UMask',
  'KeyringMode',
  'CacheDirectory',
  'CacheDirectoryMode',
  'Nice',
];
const LIMITS: readonly string[] = [
  'CapabilityBoundingSet',
  'AmbientCapabilities',
  'NoNewPrivileges',
  'LimitNOFILE',
  'LockPersonality',
  'RestrictRealtime',
  'RestrictNamespaces',
  'RestrictAddressFamilies',
  'SystemCallArchitectures',
  'SystemCallFilter',
  'SystemCallErrorNumber',
  'DevicePolicy',
  'DeviceAllow',
];
/** Of the backups, which mount nothing themselves. `backupCommand` makes what the first two make; the others hide directories. */
const BACKUP_LIMITS: readonly string[] = [
  'ProtectSystem',
  'ReadWritePaths',
  'PrivateTmp',
  'ProtectHome',
  'ProtectKernelTunables',
  'ProtectKernelModules',
  'ProtectKernelLogs',
  'ProtectControlGroups',
  'ProtectClock',
  'ProtectHostname',
];

/** The values of each setting of [Service], in their order. */
export function serviceSettings(unit = UNIT_PATH): ReadonlyMap<string, readonly string[]> {
  const [, section = ''] = readFileSync(unit, 'utf8').split(/^\[Service\]$/m);
  const settings = new Map<string, string[]>();
  for (const [, name = '', value = ''] of (section.split(/^\[/m)[0] ?? '').matchAll(/^(\w+)=(.*)$/gm)) {
    settings.set(name, [...(settings.get(name) ?? []), value]);
  }
  return settings;
}

/** Of one setting, all words of all its lines. */
export function settingWords(name: string, unit = UNIT_PATH): string[] {
  const lines = serviceSettings(unit).get(name) ?? [];
  return lines.flatMap((line) => line.split(/\s+/)).filter((word) => word !== '');
}

export function settingsWithoutTest(unit = UNIT_PATH): string[] {
  const known = [...NO_LIMITS, ...LIMITS, ...(unit === BACKUP_UNIT_PATH ? BACKUP_LIMITS : [])];
  return [...serviceSettings(unit).keys()].filter((name) => !known.includes(name));
}

/** As setpriv(1) writes them: sys_admin for CAP_SYS_ADMIN. */
export function unitCapabilities(): string[] {
  return settingWords('CapabilityBoundingSet').map((name) => name.slice('CAP_'.length).toLowerCase());
}

/** Whether this machine lets root have a capability: some do not have all. */
export function isCapabilityHere(capability: string): boolean {
  const [, bounding = '0'] = /^CapBnd:\s+(\w+)$/m.exec(readFileSync('/proc/self/status', 'utf8')) ?? [];
  return (BigInt(`0x${bounding}`) & capabilityMask([capability])) !== 0n;
}

/** As in /proc/PID/status. */
export function capabilityMask(capabilities: readonly string[]): bigint {
  // One a line, in the kernel's order.
  const known = execFileSync('setpriv', ['--list-caps'], { encoding: 'utf8' }).trim().split('\n');
  return capabilities.reduce((mask, name) => {
    const number = known.indexOf(name);
    if (number === -1) throw new Error(`setpriv does not know the capability ${name}`);
    return mask | (1n << BigInt(number));
  }, 0n);
}

export interface RestrictedCommand {
  /** The program and its arguments, to be followed by those of the plugin. */
  line: string[];
  /** Limits of the unit that this machine cannot apply without systemd. */
  missing: string[];
  /** To be called after the plugin has ended. Its guardian may outlive it. */
  dispose(): void;
}

/**
 * The start of a command line that runs a program as the unit runs the plugin: in the cgroup, with the
 * capabilities, behind the system call filters and in the root directory of ExecStart. The directory takes
 * the place of those that ExecStart leaves writable.
 */
export function restrictedCommand(writable: string): RestrictedCommand {
  const missing: string[] = [];
  const capabilities = unitCapabilities().filter((name) => {
    const isHere = isCapabilityHere(name);
    if (!isHere) missing.push(`CAP_${name.toUpperCase()}`);
    return isHere;
  });
  const cgroup = makeDevicesCgroup(writable);
  if (cgroup === null) missing.push('DeviceAllow=');
  const enter = cgroup === null ? [] : enterCgroup(cgroup);
  const files = Number(settingWords('LimitNOFILE')[0]);
  if (files > mostFiles()) missing.push('LimitNOFILE=');
  const line = [
    ...enter,
    'prlimit',
    `--nofile=${Math.min(files, mostFiles())}`,
    'setpriv',
    '--no-new-privs',
    '--inh-caps=-all',
    '--ambient-caps=-all',
    `--bounding-set=-all,${capabilities.map((name) => `+${name}`).join(',')}`,
    '/usr/bin/python3',
    APPLY_FILTERS,
    JSON.stringify(filters()),
    ...readOnlyRoot(writable),
  ];
  return {
    line,
    missing,
    dispose: () => {
      if (cgroup !== null) removeCgroup(cgroup);
    },
  };
}

/** Only CAP_SYS_RESOURCE raises this limit. */
function mostFiles(): number {
  const limits = readFileSync('/proc/self/limits', 'utf8');
  return Number(/^Max open files +\w+ +(\d+)/m.exec(limits)?.[1] ?? Number.POSITIVE_INFINITY);
}

/** What ExecStart has before the plugin's own command line. */
function readOnlyRoot(writable: string): string[] {
  const words = settingWords('ExecStart');
  const end = words.indexOf('--');
  const [script = '', ...directories] = words.slice(0, end);
  if (end === -1 || !script.endsWith('/deploy/systemd/read-only-root') || directories.length === 0) {
    throw new Error(`ExecStart of ${UNIT_PATH} does not run the plugin by read-only-root`);
  }
  return [READ_ONLY_ROOT, writable, '--'];
}

/** The argument of apply-filters.py. */
function filters(unit = UNIT_PATH): Record<string, unknown> {
  const words = (name: string): string[] => settingWords(name, unit);
  return {
    systemCalls: words('SystemCallFilter').flatMap((name) => (name.startsWith('@') ? systemCalls(name) : [name])),
    errorNumber: words('SystemCallErrorNumber')[0],
    addressFamilies: words('RestrictAddressFamilies'),
    namespaces: words('RestrictNamespaces').filter((name) => name !== 'yes'),
    lockPersonality: words('LockPersonality')[0] === 'yes',
    restrictRealtime: words('RestrictRealtime')[0] === 'yes',
  };
}

/**
 * The start of a command line that runs a program as the unit of the backups runs it: without capabilities, behind the filters,
 * and with a read-only root directory that sees the mounts of the host, of which the given directory, a shared mount, is writable.
 * Without a cgroup: its devices are readable for root here.
 */
export function backupCommand(writable: string): string[] {
  if (settingWords('CapabilityBoundingSet', BACKUP_UNIT_PATH).length > 0) throw new Error('the unit has capabilities');
  const mounts = 'mount --bind "$0" "$0" && mount -o remount,bind,ro / && exec "$@"';
  return [
    ...['unshare', '--mount', '--propagation', 'slave', '--', 'sh', '-c', mounts, writable],
    ...['setpriv', '--no-new-privs', '--inh-caps=-all', '--ambient-caps=-all', '--bounding-set=-all'],
    ...['/usr/bin/python3', APPLY_FILTERS, JSON.stringify(filters(BACKUP_UNIT_PATH))],
  ];
}

/** The members of a set of system calls, as the systemd that is installed here defines it. */
function systemCalls(name: string): string[] {
  // Every filter of systemd allows this set.
  const text = execFileSync('systemd-analyze', ['syscall-filter', name, '@default'], { encoding: 'utf8' });
  const members = [...text.matchAll(/^ {4}([@\w-]+)$/gm)].map(([, member = '']) => member);
  return members.flatMap((member) => (member.startsWith('@') ? systemCalls(member) : [member]));
}

/** A cgroup with the unit's devices; null where that takes a program of BPF (cgroup v2). */
function makeDevicesCgroup(writable: string): string | null {
  if (!existsSync(join(DEVICES_CGROUP, 'devices.deny'))) return null;
  const cgroup = join(DEVICES_CGROUP, writable.replaceAll('/', '_'));
  mkdirSync(cgroup);
  writeFileSync(join(cgroup, 'devices.deny'), 'a');
  for (const rule of deviceRules()) writeFileSync(join(cgroup, 'devices.allow'), rule);
  return cgroup;
}

/** As the kernel writes them. `closed` allows the devices that hold nothing. */
function deviceRules(): string[] {
  const harmless = ['null', 'zero', 'full', 'random', 'urandom', 'tty'].map((name) => `/dev/${name} rwm`);
  const own = serviceSettings().get('DeviceAllow') ?? [];
  const majors = readFileSync('/proc/devices', 'utf8').split('Block devices:')[1] ?? '';
  return [...harmless, ...own].flatMap((line) => {
    const [device = '', access = 'rwm'] = line.split(' ');
    if (device.startsWith('block-')) {
      const [, major] = new RegExp(`^ *(\\d+) ${device.slice('block-'.length)}$`, 'm').exec(majors) ?? [];
      return major === undefined ? [] : [`b ${major}:* ${access}`];
    }
    if (!existsSync(device)) return [];
    const { rdev } = statSync(device);
    return [`c ${majorOf(rdev)}:${minorOf(rdev)} ${access}`];
  });
}

function enterCgroup(cgroup: string): string[] {
  return ['sh', '-c', `echo $$ >${join(cgroup, 'cgroup.procs')} && exec "$@"`, 'sh'];
}

function removeCgroup(cgroup: string): void {
  const processes = readFileSync(join(cgroup, 'cgroup.procs'), 'utf8').split('\n');
  for (const id of processes.filter((line) => line !== '')) {
    try {
      writeFileSync(join(DEVICES_CGROUP, 'cgroup.procs'), id);
    } catch {
      // The process has ended.
    }
  }
  rmdirSync(cgroup);
}
