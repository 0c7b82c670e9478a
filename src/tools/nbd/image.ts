/**
 * Makes, examines and converts qcow2 images with qemu-img. Every image is opened with a given format and given bases,
 * after their headers were accepted. qemu-img gets open files and no paths.
 */
import { type FileHandle, open, stat } from 'node:fs/promises';
import { CsiError } from '../../base/errors.js';
import { type Argument, fileArgument, type GivenFile } from '../../base/process/program-arguments.js';
import { at, createNew } from '../../base/system/checked-files.js';
import {
  type BlockNode,
  type Content,
  chainArgument,
  chainNode,
  type ImageChain,
  type ImageFile,
  jsonName,
  pathOf,
} from './image-chain.js';
import { isPlainName, openImage, readImageHeader } from './image-header.js';
import { opensDirectly } from './plain-file.js';
import { runProgram, startProgram } from './program.js';

/** How QEMU compresses the clusters of an image. */
export type Compression = 'zstd';

/** What QEMU writes is at least as large in every image, and a multiple of it. */
export const BLOCK_BYTES = 4096n;
const CLUSTERS = {
  /** The file has little more than what changed, however scattered. Each table of the image is for 2 MiB of the device. */
  scattered: { bytes: BLOCK_BYTES, options: 'cluster_size=4k,compat=1.1' },
  /** A cluster has 32 subclusters of 4 KiB. Its tables are small, but a change takes a whole cluster of the file's length. */
  plain: { bytes: 131_072n, options: 'cluster_size=128k,extended_l2=on,compat=1.1' },
  /** A larger cluster compresses better. */
  compressed: { bytes: 65_536n, options: 'cluster_size=64k,compat=1.1' },
} as const;
/** QEMU opens images of small clusters for devices of up to 8 TiB. */
const SCATTERED_MAX_BYTES = 4n << 40n;
const TABLED_BYTES = 1n << 20n;

export interface Ranges {
  /** The bytes of all blocks of this size that the ranges touch. */
  bytesIn(size: bigint): bigint;
}

/**
 * Small clusters make the file shorter if ranges are scattered, and larger ones make fewer tables. So small ones must save a
 * fifth. A compressed cluster is written whole, so ranges are rounded to it: never to more than the plain image would have.
 */
function clustersFor(ranges: Ranges, sizeBytes: bigint, compression: Compression | null): keyof typeof CLUSTERS {
  const lengthWith = (kind: keyof typeof CLUSTERS, tables: bigint): bigint =>
    ranges.bytesIn(CLUSTERS[kind].bytes) + (tables + 5n) * CLUSTERS[kind].bytes;
  const scattered = lengthWith('scattered', ranges.bytesIn(TABLED_BYTES) / TABLED_BYTES) + sizeBytes / 2n ** 18n;
  const plain = lengthWith('plain', 1n);
  const isScattered = 5n * scattered < 4n * plain && sizeBytes <= SCATTERED_MAX_BYTES;
  if (compression === null) return isScattered ? 'scattered' : 'plain';
  return isScattered && lengthWith('compressed', 0n) > scattered ? 'scattered' : 'compressed';
}

export interface NewImage {
  path: string;
  sizeBytes: bigint;
  /** The name of the base for the header: a qcow2 image in the same directory; null for a full image. */
  backing: string | null;
  /** Null, or left out: nothing is compressed. */
  compression?: Compression | null;
  /** What will be written. */
  ranges: Ranges;
  signal?: AbortSignal | undefined;
}

/** Makes an empty image, for this user alone. Rejects with EEXIST if anything of that name exists. */
export async function createImage({
  path,
  sizeBytes,
  backing,
  compression = null,
  ranges,
  signal,
}: NewImage): Promise<void> {
  checkBacking(path, backing);
  const { options } = CLUSTERS[clustersFor(ranges, sizeBytes, compression)];
  const args = [
    'create',
    '-q',
    // Without this option, qemu-img opens the base that the header names.
    '-u',
    '-f',
    'qcow2',
    '-o',
    compression === null ? options : `${options},compression_type=${compression}`,
    ...(backing === null ? [] : ['-F', 'qcow2', '-b', backing]),
    written(path, () => createNew(path)),
    `${sizeBytes}`,
  ];
  await runProgram('qemu-img', args, { purpose: `create the image ${path}`, signal });
}

const written = (path: string, opening: GivenFile['open'], prefix?: string): Argument =>
  fileArgument({ path, use: 'write', open: opening }, prefix);

function checkBacking(path: string, backing: string | null): void {
  if (backing === null || isPlainName(backing)) return;
  throw CsiError.invalidArgument(
    `the image ${path} cannot be based on '${backing}': expected the name of a file in the same directory`,
  );
}

export interface ImageCheck {
  /** Errors in the tables: the image must not be used. */
  readonly corruptions: number;
  /** Clusters that nothing uses. They are harmless, but take space. */
  readonly leaks: number;
  /** Places that qemu-img could not examine. */
  readonly errors: number;
  readonly allocatedClusters: number;
}

/** Exit codes of `qemu-img check`: nothing wrong, errors found, only leaks found. */
const CHECKED = [0, 2, 3];

/** Examines the tables of one image, but neither its data nor its bases. */
export async function checkImage(image: ImageFile, signal?: AbortSignal): Promise<ImageCheck> {
  const args = ['check', '--output=json', chainArgument([image])];
  const options = { purpose: `check the image ${pathOf(image)}`, accept: CHECKED, signal };
  const { stdout } = await runProgram('qemu-img', args, options);
  const found = JSON.parse(stdout) as Record<string, number | undefined>;
  return {
    corruptions: found['corruptions'] ?? 0,
    leaks: found['leaks'] ?? 0,
    errors: found['check-errors'] ?? 0,
    allocatedClusters: found['allocated-clusters'] ?? 0,
  };
}

/** Returns the arguments that name a content. `format` is the option that gives the format of a device. */
function argumentsOf(content: Content, format: string): [string[], Argument] {
  if ('chain' in content) return [[], chainArgument(content.chain)];
  const path = content.device;
  return [[format, 'raw'], fileArgument({ path, use: 'read', open: () => open(path) })];
}

const nameOf = (content: Content): string => ('chain' in content ? pathOf(content.chain[0]) : content.device);

export interface Conversion {
  from: Content;
  /** A raw file or a block device, at least as large as the content. Its size does not change. */
  to: FileHandle;
  /** The path of the target, for messages. */
  path: string;
  /** The target reads as zeros everywhere, so zeros need not be written. */
  isZero?: boolean;
  signal?: AbortSignal | undefined;
  /** Called with the share that is done, from 0 to 1. */
  onProgress?: ((share: number) => void) | undefined;
}

/** Copies a content into an open file or device. Holes stay holes if the target supports holes. */
export async function convertImage(conversion: Conversion): Promise<void> {
  const { from, to, path, isZero = false, onProgress } = conversion;
  const [format, source] = argumentsOf(from, '-f');
  // On NFS, QEMU's locks would conflict with this process's flock, which the server treats as a lock of all bytes.
  const isDevice = (await to.stat()).isBlockDevice();
  const driver = isDevice ? 'host_device' : 'file,file.locking=off';
  const args = [
    'convert',
    '-n',
    // Allows writes out of order, where that costs nothing.
    '-W',
    ...(onProgress === undefined ? [] : ['-p']),
    ...(isZero ? ['--target-is-zero'] : []),
    ...format,
    '--target-image-opts',
    source,
    written(path, () => open(at(to.fd), 'r+'), `driver=raw,file.driver=${driver},file.filename=`),
  ];
  await runConversion(args, conversion);
}

async function runConversion(
  args: readonly Argument[],
  { from, path, signal, onProgress }: Pick<Conversion, 'from' | 'path' | 'signal' | 'onProgress'>,
): Promise<void> {
  await runProgram('qemu-img', args, {
    purpose: `copy ${nameOf(from)} to ${path}`,
    signal,
    onOutput: (text) => {
      const share = lastShareIn(text);
      if (share !== null) onProgress?.(share);
    },
  });
}

export interface RangesConversion {
  from: Content;
  /** Which ranges are copied (ranges-map.ts): a file that is open, and has any name or none. */
  map: FileHandle;
  sizeBytes: bigint;
  /** An image that names no base. The ranges fill its blocks, so that QEMU completes none from the image below. */
  path: string;
  compresses: boolean;
  /** Whether the image is written past the page cache, if its file system can. */
  isDirect: boolean;
  signal?: AbortSignal | undefined;
  /** Called with the share that is done, from 0 to 1. */
  onProgress?: ((share: number) => void) | undefined;
}

/**
 * Copies ranges of a content into an image, zeros as zeros. Nothing is flushed: QEMU would flush with each new table, and half
 * an image is of no use.
 */
export async function convertRanges(conversion: RangesConversion): Promise<void> {
  const { from, map, sizeBytes, path, compresses, isDirect, onProgress } = conversion;
  // Below both is something that is never read. With it and with -B, QEMU leaves out where the map has nothing; without them, it
  // writes zeros there.
  const below = { driver: 'null-co', size: Number(sizeBytes), 'read-zeroes': true };
  const under = `backing.driver=null-co,backing.size=${sizeBytes},backing.read-zeroes=on`;
  const direct = isDirect && (await opensDirectly(path)) ? ',cache.direct=on,file.aio=native' : '';
  const data = await nodeOf(from);
  const ranges: GivenFile = { path: `the ranges of ${nameOf(from)}`, use: 'read', open: () => open(at(map.fd)) };
  const source: Argument = {
    files: [ranges, ...data.files],
    word: ([filename, ...names]) =>
      jsonName({
        driver: 'qcow2',
        file: { driver: 'file', filename },
        'data-file': data.describe(names),
        backing: below,
      }),
  };
  const options = `driver=qcow2,${under},cache.no-flush=on${direct},file.driver=file,file.filename=`;
  const args = [
    'convert',
    '-n',
    '-B',
    'null-co://',
    // Allows writes out of order.
    '-W',
    '-m',
    '16',
    ...(onProgress === undefined ? [] : ['-p']),
    ...(compresses ? ['-c'] : []),
    '--target-image-opts',
    source,
    written(path, () => openImage(path, true), options),
  ];
  await runConversion(args, conversion);
}

async function nodeOf(content: Content): Promise<BlockNode> {
  if ('chain' in content) return chainNode(content.chain);
  const path = content.device;
  const driver = (await stat(path)).isBlockDevice() ? 'host_device' : 'file';
  const direct = (await opensDirectly(path)) ? { cache: { direct: true }, aio: 'native' } : {};
  return {
    files: [{ path, use: 'read', open: () => open(path) }],
    describe: ([filename]) => ({ driver, filename, ...direct }),
  };
}

/**
 * Compares two contents. A longer content is equal if its rest reads as zeros. Use verify's checksums to learn whether
 * a file is damaged, because this function reads both contents in full.
 */
export async function compareImages(
  a: Content,
  b: Content,
  signal?: AbortSignal,
): Promise<{ isSame: boolean; detail: string }> {
  const [formatOfA, first] = argumentsOf(a, '-f');
  const [formatOfB, second] = argumentsOf(b, '-F');
  const args = ['compare', ...formatOfA, ...formatOfB, first, second];
  const options = { purpose: `compare ${nameOf(a)} with ${nameOf(b)}`, accept: [0, 1], signal };
  const { exitCode, stdout } = await runProgram('qemu-img', args, options);
  return { isSame: exitCode === 0, detail: stdout.trim() };
}

/** Changes the name of the base in an image's header, and nothing else. Call this on a copy. */
export async function nameBacking(path: string, backing: string | null, signal?: AbortSignal): Promise<void> {
  checkBacking(path, backing);
  const named = backing === null ? ['-b', ''] : ['-F', 'qcow2', '-b', backing];
  const image = written(path, () => openImage(path, true));
  await runProgram('qemu-img', ['rebase', '-u', '-f', 'qcow2', ...named, image], {
    purpose: `name ${backing ?? 'nothing'} in the image ${path}`,
    signal,
  });
}

export interface MappedRange {
  readonly offset: bigint;
  readonly size: bigint;
  /** The index in the chain of the image that holds the range; null if no image does, and the range reads as zeros. */
  readonly holder: number | null;
}

/**
 * Yields the parts of the device from beginning to end, with the image of the chain that holds each part. Rejects with
 * INTERNAL if a part is missing, because a copy that follows the map would lack this part.
 */
export async function* mapImage(chain: ImageChain, signal?: AbortSignal): AsyncGenerator<MappedRange[]> {
  const image = chain[0] ?? '';
  const path = pathOf(image);
  const { sizeBytes } = typeof image === 'string' ? await readImageHeader(image) : image;
  const args = ['map', '--output=json', chainArgument(chain)];
  const program = await startProgram('qemu-img', args, signal);
  let rest = '';
  let end = 0n;
  const counted = (range: MappedRange): MappedRange => {
    if (range.offset === end) end += range.size;
    return range;
  };
  for await (const chunk of program.stdout.setEncoding('utf8')) {
    const lines = (rest + chunk).split('\n');
    rest = lines.pop() ?? '';
    yield lines.flatMap(mappedRange).map(counted);
  }
  const exit = await program.exited;
  signal?.throwIfAborted();
  if (exit.exitCode !== 0) throw program.failure(`map the image ${path}`, exit);
  yield mappedRange(rest).map(counted);
  if (end === sizeBytes) return;
  throw CsiError.internal(`the map of the image ${path} ends at byte ${end} of ${sizeBytes}; run the command again`);
}

/** Parses a line of the JSON array. A line has one object or none. */
function mappedRange(line: string): MappedRange[] {
  const object = /\{.*\}/.exec(line)?.[0];
  if (object === undefined) return [];
  const { start, length, depth, present } = JSON.parse(object) as Record<string, unknown>;
  return [
    {
      offset: BigInt(start as number),
      size: BigInt(length as number),
      holder: present === true ? (depth as number) : null,
    },
  ];
}

/** With -p, qemu-img writes "    (42.00/100%)\r" again and again. */
function lastShareIn(text: string): number | null {
  const percent = [...text.matchAll(/\((\d+(?:\.\d+)?)\/100%\)/g)].at(-1)?.[1];
  return percent === undefined ? null : Number(percent) / 100;
}
