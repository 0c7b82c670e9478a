/**
 * Recognizes, makes and checks file systems on block devices, and chooses their mount options.
 *
 * Decides nothing about volumes: the caller of `makeFileSystem` has made sure that the device holds nothing of value. The tools
 * open the device exclusively, so that a second tool, or a tool on a mounted device, fails instead of doing harm.
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
/** Exit codes of fsck(8): no errors, and errors corrected. */
export const FSCK_FINE = [0, 1];

/**
 * A volume is sparse and new, so no file system tool needs to write zeros over it: the kernel zeroes the tables later (by
 * punching holes), the journal stays a hole, and nothing is discarded. Measured: 6 MiB allocated for an ext4 of 100 GiB,
 * against 2.1 GiB with lazy_itable_init=0.
 */
const EXT4_EXTENDED = 'nodiscard,lazy_itable_init=1,lazy_journal_init=1';
/**
 * All features of a new ext4, whatever mke2fs.conf says: a newer mke2fs.conf adds features that the oldest supported kernel
 * (docs/limits.md) does not know, and an older mkfs.ext4 refuses to switch off features that it does not know.
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
 * Features that newer tools switch on by default and the oldest supported kernel does not mount. A tool refuses the name of a
 * feature that it does not know, so the plugin names only features that the tool itself lists.
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
/** Arguments with which mkfs only lists what it knows, and makes nothing; mkfs.xfs then exits with 1. Null if not needed. */
const LIST_ARGUMENTS: Readonly<Record<FileSystem, readonly string[] | null>> = {
  ext4: null,
  xfs: [],
  btrfs: ['-O', 'list-all'],
};

/**
 * A volume restored from a snapshot has its source's UUID, and XFS mounts each UUID only once without `nouuid`. btrfs takes two
 * devices with the same UUID for one file system: see btrfs-identity.ts.
 */
const NEEDED_OPTIONS: Readonly<Record<FileSystem, readonly string[]>> = {
  ext4: [],
  xfs: ['nouuid'],
  btrfs: [],
};

/**
 * These options come last, so that neither a flag nor the superblock overrides them: an ext4 can ask the kernel to panic on an
 * error, or to continue with damaged metadata.
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

/** The signature on a device. `none` does not prove that nothing is there. */
export async function probe(devicePath: string): Promise<Signature> {
  // blkid gives the same answer for a device that it cannot read as for an empty one.
  await (await open(devicePath, 'r')).close();
  const { exitCode, stdout } = await run('blkid', ['-p', '-o', 'export', '--', { path: devicePath }], {
    timeoutMs: PROBE_TIMEOUT_MS,
    accept: [0, BLKID_NOTHING, BLKID_AMBIGUOUS],
    device: devicePath,
  }).catch((thrown: unknown) => {
    const what = `what is on ${devicePath} cannot be determined; inspect it by hand with blkid -p`;
    throw toolFailure(what, thrown);
  });
  if (exitCode === BLKID_NOTHING) return { kind: 'none' };
  if (exitCode === BLKID_AMBIGUOUS) return { kind: 'ambiguous' };
  return parseSignature(stdout);
}

/** Parses blkid's export format, KEY=value lines. */
export function parseSignature(text: string): Signature {
  const tags = new Map<string, string>();
  for (const line of text.split('\n')) {
    const equals = line.indexOf('=');
    if (equals > 0) tags.set(line.slice(0, equals), line.slice(equals + 1));
  }
  const type = tags.get('TYPE');
  if (type === undefined) {
    const table = tags.get('PTTYPE');
    return table === undefined ? { kind: 'none' } : { kind: 'foreign', type: `${table} partition table` };
  }
  if (tags.get('USAGE') !== 'filesystem') return { kind: 'foreign', type };
  return { kind: 'filesystem', type };
}

/** A description for people, for the middle of a sentence. */
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
 * Makes a file system, whatever was on the device before. `options` are options of mkfs from an allow-list
 * (file-system-options.ts). The file system is durable once the caller has flushed the device.
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
 * All arguments of mkfs but the path. `known` is the tool's own list of its options and features. The plugin does not switch
 * off a feature that `options` name: mkfs.xfs refuses a feature that is given twice. mkfs.ext4 adds up several `-O` but takes
 * only the last of several `-E`, so our `-E` is merged into the operator's.
 */
export function makeArguments(type: FileSystem, known: string, options: readonly string[]): string[] {
  const off = NEWER_FEATURES[type]
    .filter(([, name]) => known.includes(name) && !options.some((text) => text.includes(name)))
    .flatMap(([option, name]) => [option, type === 'xfs' ? `${name}=0` : `^${name}`]);
  const wanted = options.map((text, index) =>
    type === 'ext4' && options[index - 1] === '-E' ? `${EXT4_EXTENDED},${text}` : text,
  );
  return [...MAKE_OPTIONS[type], ...off, ...wanted];
}

/** The installed mkfs's own list of its options and features; empty for ext4. */
async function listKnown(type: FileSystem): Promise<string> {
  const args = LIST_ARGUMENTS[type];
  if (args === null) return '';
  const options = { timeoutMs: MAKE_TIMEOUT_MS, accept: [0, 1] };
  const { stdout, stderr } = await run(`mkfs.${type}`, args, options);
  return stdout + stderr;
}

/**
 * Makes the XFS with reflink that a pool image needs, in a regular file. `groupBytes` is the size of an allocation group; if it
 * is null, mkfs chooses a size for the current size of the image. Reverse mappings, which newer tools make by default, are off,
 * because they would have to be written for each extent of each clone.
 */
export async function makePoolFileSystem(imagePath: string, groupBytes: bigint | null): Promise<void> {
  const groups = groupBytes === null ? [] : ['-d', `agsize=${groupBytes}`];
  await make('xfs', ['-m', 'reflink=1,rmapbt=0', ...groups], imagePath);
}

/** `device` is the same as `path`, and absent if `path` is a file of the plugin's own. */
async function make(type: FileSystem, options: readonly string[], path: string, device?: string): Promise<void> {
  try {
    const args = makeArguments(type, await listKnown(type), options);
    const rights = device === undefined ? {} : { device };
    await run(`mkfs.${type}`, [...args, { path }], { timeoutMs: MAKE_TIMEOUT_MS, ...rights });
  } catch (thrown) {
    throw toolFailure(`the ${type} file system on ${path} could not be made`, thrown);
  }
}

/**
 * Repairs, before a mount, what fsck can repair without a decision; the device must not be mounted. XFS and btrfs have no such
 * check: mounting replays their logs, and the operator decides about xfs_repair and btrfs check.
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
    throw toolFailure(`the ${type} file system on ${devicePath} is damaged; repair it by hand with fsck.ext4`, thrown);
  }
}

/**
 * The options with which the host mounts a file system. A read-only mount is safe even if a journal or log has to be replayed,
 * also for XFS, whose log is never clean in a snapshot: the kernel replays the log as long as the device is writable.
 */
export function mountOptions(type: FileSystem, flags: readonly string[], readOnly: boolean): string[] {
  const decided = ['ro', 'rw', ...TRUST];
  const wanted = splitFlags(flags).filter(
    (flag) => !decided.includes(flag) && !(type === 'ext4' && flag.startsWith('errors=')),
  );
  const needed = NEEDED_OPTIONS[type].filter((option) => !wanted.includes(option));
  return [readOnly ? 'ro' : 'rw', ...UNTRUSTED, ...needed, ...wanted, ...FORCED_OPTIONS[type]];
}

/**
 * The options of a mount that a workload sees, by the flags of its capability. Set-user-ID programs work there only if the
 * flags, or the options of the StorageClass (`own`), say `suid`. The last `suid` or `nosuid` counts, and the flags come after
 * `own`. Device nodes never work.
 */
export function publishedOptions(own: readonly string[], flags: readonly string[]): string[] {
  const wanted = splitFlags(flags);
  const trust = [...own, ...wanted].findLast((flag) => flag === 'suid' || flag === 'nosuid');
  return [...wanted.filter((flag) => !TRUST.includes(flag)), trust ?? 'nosuid', 'nodev'];
}

/** The flags as a list of single options; one flag may hold several options. */
export function splitFlags(flags: readonly string[]): string[] {
  return flags.flatMap((flag) => flag.split(',')).filter((option) => option !== '');
}
