/**
 * File systems on block devices: what is there, making one, checking one, how it wants to be mounted.
 *
 * Decides nothing about volumes: whoever calls `makeFileSystem` has made sure that nothing of value
 * is on the device. The tools open the device exclusively, so that a second one, or one on a mounted
 * device, fails instead of doing harm.
 */
import { open } from 'node:fs/promises';
import { CsiError } from '../../base/errors.js';
import { ExecError, run, toolFailure } from '../../base/process/exec.js';
import { describeHolders, isHeldExclusively } from './device-holders.js';
import { type FileSystem, MKFS_MINIMUM_BYTES } from './file-systems.js';

/** What low-level probing finds on a device. */
export type Signature =
  | { kind: 'none' }
  | { kind: 'filesystem'; type: string }
  /** Another format: a partition table, LVM, LUKS, swap, ... */
  | { kind: 'foreign'; type: string }
  /** Several signatures that contradict each other. */
  | { kind: 'ambiguous' };

const PROBE_TIMEOUT_MS = 60_000;
const MAKE_TIMEOUT_MS = 600_000;
const CHECK_TIMEOUT_MS = 3_600_000;
const BLKID_NOTHING = 2;
const BLKID_AMBIGUOUS = 8;
/** fsck(8): no errors, and errors corrected. */
export const FSCK_FINE = [0, 1];

/**
 * The volume is sparse and new, and no file system tool needs to write zeros over it: tables are left
 * for the kernel to zero (by punching holes), the journal stays a hole, nothing is discarded.
 * Measured: 6 MiB allocated for an ext4 of 100 GiB, against 2.1 GiB with lazy_itable_init=0.
 */
const EXT4_EXTENDED = 'nodiscard,lazy_itable_init=1,lazy_journal_init=1';
/**
 * Every feature that it gets, whatever mke2fs.conf has: a newer one adds features that the oldest supported kernel
 * (docs/limits.md) does not know, and an older mkfs.ext4 refuses to switch off what it does not know.
 */
const EXT4_FEATURES =
  'none,has_journal,ext_attr,resize_inode,dir_index,filetype,extent,64bit,flex_bg,sparse_super,large_file,' +
  'huge_file,dir_nlink,extra_isize,metadata_csum';
const MAKE_OPTIONS: Readonly<Record<FileSystem, readonly string[]>> = {
  ext4: ['-F', '-q', '-m', '0', '-E', EXT4_EXTENDED, '-O', EXT4_FEATURES],
  xfs: ['-f', '-q', '-K'],
  btrfs: ['-f', '-q', '-K'],
};

/**
 * What newer tools make by default and the oldest supported kernel does not mount. A tool refuses a name that it does
 * not know, so what its own list lacks is left out.
 */
const NEWER_FEATURES: Readonly<Record<FileSystem, readonly [option: string, name: string][]>> = {
  ext4: [],
  xfs: [
    ['-i', 'nrext64'],
    ['-i', 'exchange'],
    ['-n', 'parent'],
  ],
  btrfs: [['-O', 'block-group-tree']],
};
/** Arguments with which mkfs lists what it knows, and makes nothing; mkfs.xfs then ends with 1. */
const LIST_ARGUMENTS: Readonly<Record<FileSystem, readonly string[] | null>> = {
  ext4: null,
  xfs: [],
  btrfs: ['-O', 'list-all'],
};

/**
 * A volume restored from a snapshot has its source's UUID, and XFS mounts a UUID once unless asked
 * otherwise. btrfs takes two devices of one UUID for one file system: see btrfs-identity.ts.
 */
const NEEDED_OPTIONS: Readonly<Record<FileSystem, readonly string[]>> = {
  ext4: [],
  xfs: ['nouuid'],
  btrfs: [],
};

/**
 * These come last, so that neither a flag nor the superblock overrides them: an ext4 can ask the kernel to
 * panic on an error, or to continue with damaged metadata.
 */
const FORCED_OPTIONS: Readonly<Record<FileSystem, readonly string[]>> = {
  ext4: ['errors=remount-ro'],
  xfs: [],
  btrfs: [],
};

/**
 * The host must not trust what a volume's writer puts on it: a device node would reach any device, and a
 * set-user-ID program would run as root for anybody who finds the path.
 */
export const UNTRUSTED: readonly string[] = ['nosuid', 'nodev'];
const TRUST = ['nosuid', 'suid', 'nodev', 'dev'];

/** The signature on a device. Nothing found does not prove that nothing is there. */
export async function probe(devicePath: string): Promise<Signature> {
  // blkid answers a device it cannot read like an empty one.
  await (await open(devicePath, 'r')).close();
  const { exitCode, stdout } = await run(
    'blkid',
    ['-p', '-o', 'export', '--', { path: devicePath }],
    {
      timeoutMs: PROBE_TIMEOUT_MS,
      accept: [0, BLKID_NOTHING, BLKID_AMBIGUOUS],
      device: devicePath,
    },
  ).catch((thrown: unknown) => {
    const what = `what is on ${devicePath} cannot be determined; inspect it by hand with blkid -p`;
    throw toolFailure(what, thrown);
  });
  if (exitCode === BLKID_NOTHING) return { kind: 'none' };
  if (exitCode === BLKID_AMBIGUOUS) return { kind: 'ambiguous' };
  return parseSignature(stdout);
}

/** From blkid's export format, KEY=value lines. */
export function parseSignature(text: string): Signature {
  const tags = new Map<string, string>();
  for (const line of text.split('\n')) {
    const equals = line.indexOf('=');
    if (equals > 0) tags.set(line.slice(0, equals), line.slice(equals + 1));
  }
  const type = tags.get('TYPE');
  if (type === undefined) {
    const table = tags.get('PTTYPE');
    return table === undefined
      ? { kind: 'none' }
      : { kind: 'foreign', type: `${table} partition table` };
  }
  if (tags.get('USAGE') !== 'filesystem') return { kind: 'foreign', type };
  return { kind: 'filesystem', type };
}

/** For people, in the middle of a sentence. */
export function describeSignature(signature: Signature): string {
  switch (signature.kind) {
    case 'none':
      return 'no known signature';
    case 'ambiguous':
      return 'several contradicting signatures';
    case 'foreign':
      return signature.type;
    case 'filesystem':
      return `a file system of type ${signature.type}`;
  }
}

/**
 * Makes a file system, whatever was there before. `options` are mkfs's own, from an allow-list
 * (file-system-options.ts). It is durable when the caller has flushed the device.
 */
export async function makeFileSystem(
  type: FileSystem,
  devicePath: string,
  sizeBytes: bigint,
  options: readonly string[] = [],
): Promise<void> {
  const minimum = MKFS_MINIMUM_BYTES[type];
  if (sizeBytes < minimum) {
    throw CsiError.failedPrecondition(
      `a file system of type ${type} needs ${minimum} bytes and the volume has ${sizeBytes}; ` +
        'make a larger volume or use another type',
    );
  }
  await make(type, options, devicePath, devicePath);
}

/**
 * All arguments but the path. `known` is what the tool lists as its options and features. A feature that `options`
 * name is left to them: mkfs.xfs refuses one that is given twice. mkfs.ext4 adds up several `-O`, and of several `-E`
 * takes the last, so ours are merged into the operator's.
 */
export function makeArguments(
  type: FileSystem,
  known: string,
  options: readonly string[],
): string[] {
  const off = NEWER_FEATURES[type]
    .filter(([, name]) => known.includes(name) && !options.some((text) => text.includes(name)))
    .flatMap(([option, name]) => [option, type === 'xfs' ? `${name}=0` : `^${name}`]);
  const wanted = options.map((text, index) =>
    type === 'ext4' && options[index - 1] === '-E' ? `${EXT4_EXTENDED},${text}` : text,
  );
  return [...MAKE_OPTIONS[type], ...off, ...wanted];
}

/** What the installed mkfs knows, in its own words. */
async function listKnown(type: FileSystem): Promise<string> {
  const args = LIST_ARGUMENTS[type];
  if (args === null) return '';
  const options = { timeoutMs: MAKE_TIMEOUT_MS, accept: [0, 1] };
  const { stdout, stderr } = await run(`mkfs.${type}`, args, options);
  return stdout + stderr;
}

/**
 * Makes the XFS with reflink that a pool image needs, in a regular file. `groupBytes` is the size of an
 * allocation group; null: mkfs chooses one for the size that the image has now. Reverse mappings, which newer tools
 * make by default, would have to be written for each extent of each clone.
 */
export async function makePoolFileSystem(
  imagePath: string,
  groupBytes: bigint | null,
): Promise<void> {
  const groups = groupBytes === null ? [] : ['-d', `agsize=${groupBytes}`];
  await make('xfs', ['-m', 'reflink=1,rmapbt=0', ...groups], imagePath);
}

/** `device`: what `path` is, unless it is a file of the plugin's own. */
async function make(
  type: FileSystem,
  options: readonly string[],
  path: string,
  device?: string,
): Promise<void> {
  try {
    const args = makeArguments(type, await listKnown(type), options);
    const rights = device === undefined ? {} : { device };
    await run(`mkfs.${type}`, [...args, { path }], { timeoutMs: MAKE_TIMEOUT_MS, ...rights });
  } catch (thrown) {
    throw toolFailure(`the ${type} file system on ${path} could not be made`, thrown);
  }
}

/**
 * Repairs what fsck can repair without a decision, before a mount; the device must not be mounted. XFS
 * and btrfs have no such check: mounting replays their logs, and xfs_repair and btrfs check are left to
 * the operator.
 */
export async function checkFileSystem(type: FileSystem, devicePath: string): Promise<void> {
  if (type !== 'ext4') return;
  try {
    const options = { timeoutMs: CHECK_TIMEOUT_MS, accept: FSCK_FINE, device: devicePath };
    await run('fsck.ext4', ['-p', { path: devicePath }], options);
  } catch (thrown) {
    if (thrown instanceof ExecError && (await isHeldExclusively(devicePath))) {
      throw toolFailure(
        `the ${type} file system cannot be checked before its mount, since something uses its device: ` +
          `${await describeHolders(devicePath)}; end that, then try again`,
        thrown,
      );
    }
    throw toolFailure(
      `the ${type} file system on ${devicePath} is damaged; repair it by hand with fsck.ext4`,
      thrown,
    );
  }
}

/**
 * The options to mount a file system with on the host. Read-only is safe with a journal or log to replay,
 * also XFS's, which is never clean in a snapshot: the kernel replays it as long as the device is writable.
 */
export function mountOptions(
  type: FileSystem,
  flags: readonly string[],
  readOnly: boolean,
): string[] {
  const decided = ['ro', 'rw', ...TRUST];
  const wanted = splitFlags(flags).filter(
    (flag) => !decided.includes(flag) && !(type === 'ext4' && flag.startsWith('errors=')),
  );
  const needed = NEEDED_OPTIONS[type].filter((option) => !wanted.includes(option));
  return [readOnly ? 'ro' : 'rw', ...UNTRUSTED, ...needed, ...wanted, ...FORCED_OPTIONS[type]];
}

/**
 * The options of a mount that a workload sees, by the flags of its capability. Programs there are set-user-ID
 * only if these, or those of its StorageClass (`own`), say `suid`; the last one counts, of the capability's
 * if they have one. Device nodes never work.
 */
export function publishedOptions(own: readonly string[], flags: readonly string[]): string[] {
  const wanted = splitFlags(flags);
  const trust = [...own, ...wanted].findLast((flag) => flag === 'suid' || flag === 'nosuid');
  return [...wanted.filter((flag) => !TRUST.includes(flag)), trust ?? 'nosuid', 'nodev'];
}

/** Flags as a list of single options; one flag may hold several. */
export function splitFlags(flags: readonly string[]): string[] {
  return flags.flatMap((flag) => flag.split(',')).filter((option) => option !== '');
}
