/**
 * qcow2 images as files: made, examined and converted by qemu-img. Every image is opened with its format
 * given, and after imageChain has accepted it and what it is based on.
 */
import { stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { CsiError } from '../../base/errors.js';
import { type ImageHeader, imageChain, isPlainName, readImageHeader } from './image-header.js';
import { runProgram } from './program.js';

/**
 * Clusters of 128 KiB have 32 subclusters of 4 KiB, so that a change of one block takes one block, with half
 * the tables of clusters of 64 KiB.
 */
const LAYOUT = 'extended_l2=on,cluster_size=128k,compat=1.1';

export interface NewImage {
  path: string;
  sizeBytes: bigint;
  /** Name of the image it is based on, a qcow2 image in the same directory; null for a full image. */
  backing: string | null;
  signal?: AbortSignal;
}

/** Makes an empty image. Replaces a file of that name. */
export async function createImage({ path, sizeBytes, backing, signal }: NewImage): Promise<void> {
  if (backing !== null) await checkBacking(path, backing);
  const args = [
    'create',
    '-q',
    // The chain is checked above; qemu-img would open and lock all of it.
    '-u',
    '-f',
    'qcow2',
    '-o',
    LAYOUT,
    ...(backing === null ? [] : ['-F', 'qcow2', '-b', backing]),
    { path },
    `${sizeBytes}`,
  ];
  await runProgram('qemu-img', args, { purpose: `create the image ${path}`, ...given(signal) });
}

async function checkBacking(path: string, backing: string): Promise<void> {
  if (!isPlainName(backing)) {
    throw CsiError.invalidArgument(
      `the image ${path} cannot be based on '${backing}': expected the name of a file in the same directory`,
    );
  }
  await imageChain(join(dirname(path), backing));
}

export interface ImageInfo extends ImageHeader {
  /** What the file takes on its disk. */
  readonly allocatedBytes: bigint;
  readonly fileBytes: bigint;
}

/** Reads the file's header; starts no program. */
export async function imageInfo(path: string): Promise<ImageInfo> {
  const header = await readImageHeader(path);
  const { size, blocks } = await stat(path, { bigint: true });
  return { ...header, fileBytes: size, allocatedBytes: blocks * 512n };
}

export interface ImageCheck {
  /** Errors in the tables: the image must not be used. */
  readonly corruptions: number;
  /** Clusters that nothing uses: harmless, they take space. */
  readonly leaks: number;
  /** What qemu-img could not examine. */
  readonly errors: number;
  /** Clusters of the image that hold data. */
  readonly allocatedClusters: number;
}

/** Exit codes of `qemu-img check`: nothing wrong, errors found, only leaks found. */
const CHECKED = [0, 2, 3];

/** Examines the tables of one image, not the data and not what it is based on. */
export async function checkImage(path: string, signal?: AbortSignal): Promise<ImageCheck> {
  await readImageHeader(path);
  const { stdout } = await runProgram(
    'qemu-img',
    ['check', '--output=json', '-f', 'qcow2', { path }],
    {
      purpose: `check the image ${path}`,
      accept: CHECKED,
      ...given(signal),
    },
  );
  const found = JSON.parse(stdout) as Record<string, number | undefined>;
  return {
    corruptions: found['corruptions'] ?? 0,
    leaks: found['leaks'] ?? 0,
    errors: found['check-errors'] ?? 0,
    allocatedClusters: found['allocated-clusters'] ?? 0,
  };
}

export type ImageFormat = 'qcow2' | 'raw';

export interface Conversion {
  /** The image that is read, together with what it is based on. */
  from: string;
  fromFormat?: ImageFormat;
  /** A file, or a block device. */
  to: string;
  toFormat?: ImageFormat;
  /** The target exists and keeps its size: a block device. Otherwise it is made. */
  isExisting?: boolean;
  /** The existing target reads as zeros everywhere, so zeros need not be written. */
  isZero?: boolean;
  /** zstd, for qcow2 only. */
  isCompressed?: boolean;
  signal?: AbortSignal;
  /** 0 to 1. */
  onProgress?(share: number): void;
}

/** Copies the contents of an image into another file or device; holes stay holes where the target has them. */
export async function convertImage(conversion: Conversion): Promise<void> {
  const { from, to, fromFormat = 'qcow2', toFormat = 'raw' } = conversion;
  const { isExisting = false, isZero = false, isCompressed = false } = conversion;
  const { signal, onProgress } = conversion;
  if (fromFormat === 'qcow2') await imageChain(from);
  const layout = isCompressed ? `${LAYOUT},compression_type=zstd` : LAYOUT;
  const args = [
    'convert',
    ...(onProgress === undefined ? [] : ['-p']),
    // Out of order, where that costs nothing: a device, and the clusters of an image that is not compressed.
    ...(isExisting ? ['-n', '-W'] : []),
    ...(isExisting && isZero ? ['--target-is-zero'] : []),
    ...(isCompressed ? ['-c'] : []),
    ...(toFormat === 'qcow2' && !isExisting ? ['-o', layout] : []),
    '-f',
    fromFormat,
    '-O',
    toFormat,
    { path: from },
    { path: to },
  ];
  await runProgram('qemu-img', args, {
    purpose: `copy ${from} to ${to}`,
    ...given(signal),
    onOutput: (text) => {
      const share = lastShareIn(text);
      if (share !== null) onProgress?.(share);
    },
  });
}

/**
 * Whether two images or devices have the same contents. A longer one is equal if its rest reads as zeros.
 * Use verify's checksums to learn whether a file is damaged: this reads all of both.
 */
export async function compareImages(
  a: { path: string; format: ImageFormat },
  b: { path: string; format: ImageFormat },
  signal?: AbortSignal,
): Promise<{ isSame: boolean; detail: string }> {
  for (const { path, format } of [a, b]) if (format === 'qcow2') await imageChain(path);
  const { exitCode, stdout } = await runProgram(
    'qemu-img',
    ['compare', '-f', a.format, '-F', b.format, { path: a.path }, { path: b.path }],
    { purpose: `compare ${a.path} with ${b.path}`, accept: [0, 1], ...given(signal) },
  );
  return { isSame: exitCode === 0, detail: stdout.trim() };
}

export interface Rebase {
  path: string;
  /** Name of a qcow2 image in the same directory; null: nothing. */
  backing: string | null;
  /**
   * Only the name changes: the caller knows that the new image has the contents of the old one. Otherwise
   * what differs between the two is copied into the image, so that its contents stay the same.
   */
  isRenamed?: boolean;
  signal?: AbortSignal;
  /** 0 to 1. */
  onProgress?(share: number): void;
}

/** Bases an image on another image, in place: an interrupted call may leave a damaged file. Work on a copy. */
export async function rebaseImage(rebase: Rebase): Promise<void> {
  const { path, backing, isRenamed = false, signal, onProgress } = rebase;
  if (isRenamed) await readImageHeader(path);
  else await imageChain(path);
  if (backing !== null) await checkBacking(path, backing);
  const args = [
    'rebase',
    ...(isRenamed ? ['-u'] : []),
    ...(onProgress === undefined ? [] : ['-p']),
    '-f',
    'qcow2',
    ...(backing === null ? ['-b', ''] : ['-F', 'qcow2', '-b', backing]),
    { path },
  ];
  await runProgram('qemu-img', args, {
    purpose: `base the image ${path} on ${backing ?? 'nothing'}`,
    ...given(signal),
    onOutput: (text) => {
      const share = lastShareIn(text);
      if (share !== null) onProgress?.(share);
    },
  });
}

/** With -p, qemu-img writes "    (42.00/100%)\r" again and again. */
function lastShareIn(text: string): number | null {
  const percent = [...text.matchAll(/\((\d+(?:\.\d+)?)\/100%\)/g)].at(-1)?.[1];
  return percent === undefined ? null : Number(percent) / 100;
}

function given(signal: AbortSignal | undefined): { signal?: AbortSignal } {
  return signal === undefined ? {} : { signal };
}
