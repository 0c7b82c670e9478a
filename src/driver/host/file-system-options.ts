/**
 * Which options an operator may give to mkfs and to mount: allow-lists per file system.
 *
 * An option that tunes a file system is allowed if its value matches a pattern, because these texts end up on root's command
 * line. An option is refused if it names a path, device, label or UUID, forces the tool or changes what the tool does, keeps
 * the kernel from growing the file system (sparse_super2, no resize_inode), or is not listed. Options of a StorageClass may
 * appear in messages; mount flags of a capability may be secret (CSI), so messages give only their position. Runs no tool.
 */
import { CsiError, printable } from '../../base/errors.js';
import { FILE_SYSTEMS, type FileSystem } from './file-systems.js';

/** What an option takes: nothing, a value, or a comma list of names with and without values. */
type Rule = null | RegExp | Readonly<Record<string, null | RegExp>>;
type Rules = Readonly<Record<string, Rule>>;

const FLAG = /^[01]$/;
const COUNT = /^\d{1,10}$/;
const SIZE = /^\d{1,10}[kKmMgG]?$/;

const each = (names: string, rule: null | RegExp): Record<string, null | RegExp> =>
  Object.fromEntries(names.split(' ').map((name) => [name, rule]));

/** Features that are switched on by their name and off by `^name`. */
const features = (names: string): Record<string, null> =>
  Object.fromEntries(names.split(' ').flatMap((name) => [[name, null] as const, [`^${name}`, null] as const]));

const MKFS_OPTIONS: Readonly<Record<FileSystem, Rules>> = {
  ext4: {
    '-b': /^(1024|2048|4096)$/,
    '-i': /^\d{4,8}$/,
    '-I': /^(128|256|512|1024|2048|4096)$/,
    '-m': /^(50|[0-4]?\d)(\.\d{1,2})?$/,
    '-N': COUNT,
    '-G': /^\d{1,6}$/,
    // `panic` is not allowed: it would take the node down.
    '-e': /^(continue|remount-ro)$/,
    '-J': { size: /^\d{1,5}$/, fast_commit_size: /^\d{1,5}$/ },
    '-T': /^(default|small|big|huge|news|largefile|largefile4)$/,
    '-E': {
      ...each('stride stripe_width stripe-width resize', COUNT),
      ...each('lazy_itable_init lazy_journal_init packed_meta_blocks', FLAG),
      ...each('discard nodiscard', null),
      root_owner: /^\d{1,10}:\d{1,10}$/,
    },
    '-O': features(
      '64bit dir_index dir_nlink ea_inode encrypt extent extra_isize fast_commit filetype flex_bg has_journal ' +
        'huge_file inline_data large_dir large_file metadata_csum metadata_csum_seed orphan_file project quota ' +
        'sparse_super stable_inodes uninit_bg verity',
    ),
  },
  xfs: {
    '-b': { size: SIZE },
    '-s': { size: SIZE },
    '-n': { size: SIZE, ftype: FLAG },
    '-i': { size: /^(256|512|1024|2048)$/, maxpct: /^\d{1,3}$/, ...each('sparse nrext64', FLAG) },
    '-m': each('crc finobt rmapbt reflink bigtime inobtcount', FLAG),
    '-d': { ...each('su agsize', SIZE), ...each('sw sunit swidth agcount', COUNT) },
    '-l': { ...each('size su', SIZE), sunit: COUNT, 'lazy-count': FLAG },
  },
  btrfs: {
    '-m': /^(single|dup)$/,
    '-d': /^(single|dup)$/,
    '-n': /^(4096|8192|16384|32768|65536|4k|8k|16k|32k|64k)$/,
    '-s': /^(4096|4k)$/,
    '--csum': /^(crc32c|xxhash|sha256|blake2)$/,
    '-O': features('extref skinny-metadata no-holes free-space-tree block-group-tree quota squota'),
    '-R': features('quota free-space-tree'),
  },
};

/**
 * Options that the kernel's VFS takes for any file system. `ro` and `rw` are not listed because the capability decides about
 * them; `dev` is not listed because a device node on a volume would reach any device of the host.
 */
const COMMON_MOUNT_OPTIONS: Rules = each(
  'defaults atime noatime relatime norelatime strictatime nostrictatime diratime nodiratime lazytime nolazytime ' +
    'nodev suid nosuid exec noexec symfollow nosymfollow sync async dirsync',
  null,
);
const QUOTA_OPTIONS = 'quota noquota usrquota grpquota prjquota';

const MOUNT_OPTIONS: Readonly<Record<FileSystem, Rules>> = {
  ext4: {
    ...each(`${QUOTA_OPTIONS} discard nodiscard nobarrier delalloc nodelalloc acl`, null),
    ...each('user_xattr auto_da_alloc noauto_da_alloc noinit_itable init_itable', null),
    ...each('journal_checksum nojournal_checksum dioread_lock dioread_nolock', null),
    ...each('grpid nogrpid bsdgroups sysvgroups bsddf minixdf i_version', null),
    ...each('commit max_batch_time min_batch_time stripe inode_readahead_blks', COUNT),
    ...each('max_dir_size_kb resuid resgid', COUNT),
    barrier: /^[01]?$/,
    data: /^(ordered|writeback|journal)$/,
    // The only value allowed: a panic would take the node down, and continuing with damage is worse.
    errors: /^remount-ro$/,
    journal_ioprio: /^[0-7]$/,
  },
  xfs: {
    ...each(`${QUOTA_OPTIONS} discard nodiscard inode32 inode64 largeio nolargeio noalign`, null),
    ...each('swalloc wsync ikeep noikeep filestreams nouuid attr2 noattr2 uquota gquota pquota', null),
    ...each('uqnoenforce gqnoenforce pqnoenforce grpid nogrpid bsdgroups sysvgroups', null),
    ...each('allocsize logbsize', SIZE),
    ...each('sunit swidth', COUNT),
    logbufs: /^[2-8]$/,
  },
  btrfs: {
    ...each('nodiscard ssd nossd ssd_spread nossd_spread autodefrag noautodefrag', null),
    ...each('datacow nodatacow datasum nodatasum flushoncommit noflushoncommit', null),
    ...each('barrier nobarrier acl noacl treelog notreelog user_subvol_rm_allowed skip_balance', null),
    ...each('commit thread_pool metadata_ratio', COUNT),
    ...each('compress compress-force', /^(|no|none|lzo|zlib(:[1-9])?|zstd(:(-?\d|1[0-5]))?)$/),
    discard: /^(|sync|async)$/,
    space_cache: /^v2$/,
    max_inline: SIZE,
  },
};

/**
 * Splits a text of `-x value` pairs into arguments for mkfs. INVALID_ARGUMENT if the text has anything that is not listed for
 * the file system, or, if the file system is not known (null), if no file system accepts the text.
 */
export function parseMkfsOptions(text: string, field: string, type: FileSystem | null): string[] {
  const words = text.split(/\s+/).filter((word) => word !== '');
  const problems = typesOf(type).map((candidate) => mkfsProblem(words, candidate));
  if (problems.every((problem) => problem !== null)) {
    const known = typesOf(type).map((one) => `${one}: ${mkfsOptionNames(one).join(' ')}`);
    throw CsiError.invalidArgument(`${field}: ${problems[0]}; supported are, for ${known.join('; for ')}`);
  }
  return words;
}

/** Splits a comma list into options for `mount -o`. INVALID_ARGUMENT as in parseMkfsOptions, and also for `ro` and `rw`. */
export function parseMountOptions(text: string, field: string, type: FileSystem | null): string[] {
  const options = text.split(',').filter((option) => option !== '');
  const wrong = options.find((option) => !isMountOption(option, type));
  if (wrong !== undefined) {
    throw CsiError.invalidArgument(
      `${field}: '${printable(wrong)}' is not supported; supported are ${mountOptionNames(type).join(' ')}`,
    );
  }
  return options;
}

/** Options that are accepted only in the parameters of existing volumes. The mount is made without them. */
const RETIRED_MOUNT_OPTIONS: readonly string[] = ['dev', 'errors=continue'];

/** As parseMountOptions, but ignores the retired options, so that they do not prevent the use of an existing volume. */
export function parseStoredMountOptions(text: string, field: string, type: FileSystem): string[] {
  const options = text.split(',').filter((option) => !RETIRED_MOUNT_OPTIONS.includes(option));
  return parseMountOptions(options.join(','), field, type);
}

/**
 * INVALID_ARGUMENT if a mount flag of a capability is neither a listed option nor `ro` or `rw`. A flag may hold several
 * options, separated by commas. The message names only the position of the flag.
 */
export function assertMountFlags(flags: readonly string[], field: string, type: FileSystem | null): void {
  flags.forEach((flag, index) => {
    const options = flag.split(',').filter((option) => !['', 'ro', 'rw'].includes(option));
    if (options.every((option) => isMountOption(option, type))) return;
    throw CsiError.invalidArgument(
      `${field}[${index}] holds an option that is not supported, or a value that it cannot have; ` +
        `supported are ro rw ${mountOptionNames(type).join(' ')}`,
    );
  });
}

/** The options that may be given to mkfs, for documents and messages. */
export const mkfsOptionNames = (type: FileSystem): string[] => Object.keys(MKFS_OPTIONS[type]);

const typesOf = (type: FileSystem | null): readonly FileSystem[] => (type === null ? FILE_SYSTEMS : [type]);

/** The options that may be given to mount, for documents and messages. */
export function mountOptionNames(type: FileSystem | null): string[] {
  const own = typesOf(type).flatMap((one) => Object.keys(MOUNT_OPTIONS[one]));
  return [...new Set([...Object.keys(COMMON_MOUNT_OPTIONS), ...own])];
}

function isMountOption(option: string, type: FileSystem | null): boolean {
  return typesOf(type).some((one) => isListed(option, COMMON_MOUNT_OPTIONS) || isListed(option, MOUNT_OPTIONS[one]));
}

/** Why mkfs for this type does not accept the words, in a few words; null if it accepts them. */
function mkfsProblem(words: readonly string[], type: FileSystem): string | null {
  const seen = new Set<string>();
  for (let index = 0; index < words.length; index += 2) {
    const option = words[index] ?? '';
    const value = words[index + 1];
    const rule = ownRule(MKFS_OPTIONS[type], option);
    if (rule === undefined) return `'${printable(option)}' is not an option for mkfs.${type}`;
    if (value === undefined) return `${option} has no value`;
    if (seen.has(option)) return `${option} is given twice`;
    seen.add(option);
    if (!isAllowed(value, rule)) return `'${option} ${printable(value)}' cannot be used for mkfs.${type}`;
  }
  return null;
}

function isAllowed(value: string, rule: Rule): boolean {
  if (rule === null) return value === '';
  if (rule instanceof RegExp) return rule.test(value);
  return value.split(',').every((item) => isListed(item, rule));
}

/** Whether the rules list `name` or `name=value`. A pattern that matches the empty text allows the bare name. */
function isListed(item: string, rules: Rules): boolean {
  const equals = item.indexOf('=');
  const name = equals < 0 ? item : item.slice(0, equals);
  const rule = ownRule(rules, name);
  if (rule === undefined) return false;
  if (equals < 0) return rule === null || (rule instanceof RegExp && rule.test(''));
  const value = item.slice(equals + 1);
  return value !== '' && rule instanceof RegExp && rule.test(value);
}

const ownRule = (rules: Rules, name: string): Rule | undefined =>
  Object.hasOwn(rules, name) ? rules[name] : undefined;
