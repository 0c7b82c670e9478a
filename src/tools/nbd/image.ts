/**
 * qcow2 images as files: made, examined and converted by qemu-img. Every image is opened with its format and what it is
 * based on given, after their headers were accepted.
 */
import { stat } from 'node:fs/promises';
import { CsiError } from '../../base/errors.js';
import type { Argument } from '../../base/process/program-arguments.js';
import { type Content, chainName, type ImageChain } from './image-chain.js';
import { type ImageHeader, isPlainName, readImageHeader } from './image-header.js';
import { createPlain } from './plain-file.js';
import { Program, runProgram } from './program.js';

/**
 * Clusters of 128 KiB have 32 subclusters of 4 KiB, so that a change of one block takes one block, with half
 * the tables of clusters of 64 KiB.
 */
const LAYOUT = 'extended_l2=on,cluster_size=128k,compat=1.1';

export interface NewImage {
  path: string;
  sizeBytes: bigint;
  /** Name of the image it is based on, for its header: a qcow2 image in the same directory; null for a full image. */
  backing: string | null;
  signal?: AbortSignal;
}

/** Makes an empty image, for this user alone. Rejects with EEXIST if there is anything of that name. */
export async function createImage({ path, sizeBytes, backing, signal }: NewImage): Promise<void> {
  checkBacking(path, backing);
  await (await createPlain(path)).close();
  const args = [
    'create',
    '-q',
    // Otherwise qemu-img opens what the header names.
    '-u',
    '-f',
    'qcow2',
    '-o',
    LAYOUT,
    ...(backing === null ? [] : ['-F', 'qcow2', '-b', backing]),
    { path },
    `${sizeBytes}`,
  ];
  const opens = { writes: [path] };
  await runProgram('qemu-img', args, {
    purpose: `create the image ${path}`,
    opens,
    ...(signal && { signal }),
  });
}

function checkBacking(path: string, backing: string | null): void {
  if (backing === null || isPlainName(backing)) return;
  throw CsiError.invalidArgument(
    `the image ${path} cannot be based on '${backing}': expected the name of a file in the same directory`,
  );
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
  const { stdout } = await runProgram(
    'qemu-img',
    ['check', '--output=json', await chainName([path])],
    {
      purpose: `check the image ${path}`,
      opens: { reads: [path] },
      accept: CHECKED,
      ...(signal && { signal }),
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

/** The arguments that name a content; `format` is the option for the format of one that does not say it. */
async function argumentsOf(content: Content, format: string): Promise<[Argument[], Argument]> {
  return 'chain' in content
    ? [[], await chainName(content.chain)]
    : [[format, 'raw'], { path: content.device }];
}

const nameOf = (content: Content): string => filesOf(content)[0] ?? '';

const filesOf = (content: Content): readonly string[] =>
  'chain' in content ? content.chain : [content.device];

export interface Conversion {
  from: Content;
  /** A raw file, or a block device. */
  to: string;
  /** The target keeps its size: a block device. Otherwise it gets that of the content. */
  isExisting?: boolean;
  /** The existing target reads as zeros everywhere, so zeros need not be written. */
  isZero?: boolean;
  signal?: AbortSignal;
  /** 0 to 1. */
  onProgress?(share: number): void;
}

/** Copies a content into a file or device that is there; holes stay holes where the target has them. */
export async function convertImage(conversion: Conversion): Promise<void> {
  const { from, to, isExisting = false, isZero = false, signal, onProgress } = conversion;
  const [format, source] = await argumentsOf(from, '-f');
  const args = [
    'convert',
    ...(onProgress === undefined ? [] : ['-p']),
    // Out of order, where that costs nothing.
    ...(isExisting ? ['-n', '-W'] : []),
    ...(isExisting && isZero ? ['--target-is-zero'] : []),
    ...format,
    '-O',
    'raw',
    source,
    { path: to },
  ];
  await runProgram('qemu-img', args, {
    purpose: `copy ${nameOf(from)} to ${to}`,
    opens: { reads: filesOf(from), writes: [to] },
    ...(signal && { signal }),
    onOutput: (text) => {
      const share = lastShareIn(text);
      if (share !== null) onProgress?.(share);
    },
  });
}

/**
 * Whether two contents are the same. A longer one is equal if its rest reads as zeros.
 * Use verify's checksums to learn whether a file is damaged: this reads all of both.
 */
export async function compareImages(
  a: Content,
  b: Content,
  signal?: AbortSignal,
): Promise<{ isSame: boolean; detail: string }> {
  const [formatOfA, first] = await argumentsOf(a, '-f');
  const [formatOfB, second] = await argumentsOf(b, '-F');
  const { exitCode, stdout } = await runProgram(
    'qemu-img',
    ['compare', ...formatOfA, ...formatOfB, first, second],
    {
      purpose: `compare ${nameOf(a)} with ${nameOf(b)}`,
      opens: { reads: [...filesOf(a), ...filesOf(b)] },
      accept: [0, 1],
      ...(signal && { signal }),
    },
  );
  return { isSame: exitCode === 0, detail: stdout.trim() };
}

/** Changes the name of what an image is based on in its header, and nothing else. Work on a copy. */
export async function nameBacking(
  path: string,
  backing: string | null,
  signal?: AbortSignal,
): Promise<void> {
  checkBacking(path, backing);
  await readImageHeader(path);
  const named = backing === null ? ['-b', ''] : ['-F', 'qcow2', '-b', backing];
  await runProgram('qemu-img', ['rebase', '-u', '-f', 'qcow2', ...named, { path }], {
    purpose: `name ${backing ?? 'nothing'} in the image ${path}`,
    opens: { writes: [path] },
    ...(signal && { signal }),
  });
}

export interface MappedRange {
  readonly offset: bigint;
  readonly size: bigint;
  /** Which image of the chain holds the range, by its index; null: none, and it reads as zeros. */
  readonly holder: number | null;
}

/** Which image of a chain each part of the device is read from, from its beginning to its end. */
export async function* mapImage(
  chain: ImageChain,
  signal?: AbortSignal,
): AsyncGenerator<MappedRange[]> {
  const args = ['map', '--output=json', await chainName(chain)];
  const program = await Program.start('qemu-img', args, {
    opens: { reads: chain },
    ...(signal && { signal }),
  });
  program.extra.resume();
  let rest = '';
  for await (const chunk of program.stdout.setEncoding('utf8')) {
    const lines = (rest + chunk).split('\n');
    rest = lines.pop() ?? '';
    yield lines.flatMap(mappedRange);
  }
  const exit = await program.exited;
  signal?.throwIfAborted();
  if (exit.exitCode !== 0) throw program.failure(`map the image ${chain[0]}`, exit);
  yield mappedRange(rest);
}

/** A line has one object of an array; other lines have none. */
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
