/**
 * Names an image and all images below it for QEMU's programs. Every file is named, so that QEMU looks up no file by the
 * name in a header. The names in headers are for other tools, and may be the names of images that are gone.
 */
import { isAbsolute } from 'node:path';
import { CsiError } from '../../base/errors.js';
import type { FileArgument, GivenFile } from '../../base/process/program-arguments.js';
import { openImage, readImageHeader } from './image-header.js';

/** An image that a server of NBD on a unix socket gives, whose header was accepted. */
export interface ServedImage {
  /** Names the image in messages. */
  readonly path: string;
  readonly socketPath: string;
  /** The size of the device in the image. */
  readonly sizeBytes: bigint;
}

/** A file, by its absolute path, or an image that is served. */
export type ImageFile = string | ServedImage;

/** The image itself first, the full image last. */
export type ImageChain = readonly ImageFile[];

export const pathOf = (image: ImageFile | undefined): string =>
  typeof image === 'object' ? image.path : (image ?? '');

/** What is read as a device: a raw file or block device, or an image. */
export type Content = { readonly device: string } | { readonly chain: ImageChain };

/** The most images in a chain: QEMU opens all images of a chain at once, and gets all their names in one argument. */
export const CHAIN_MAX = 200;

/** Files, and how QEMU is told to use them. */
export interface BlockNode {
  readonly files: readonly GivenFile[];
  /** @param names the names by which the program opens the files, in the order of `files` */
  describe(names: readonly string[]): object;
}

/**
 * Describes this chain and nothing else. When a program starts, each file is opened, its header is checked as in
 * readImageHeader, and the program gets exactly these open files.
 *
 * @param writes the program may write the first image
 */
export function chainNode(chain: ImageChain, writes = false): BlockNode {
  checkChain(chain);
  const paths = chain.filter((image) => typeof image === 'string');
  const files = paths.map((path) => {
    const isWritten = writes && path === chain[0];
    const use = isWritten ? ('write' as const) : ('read' as const);
    return { path, use, open: () => openImage(path, isWritten) };
  });
  const describe = (names: readonly string[]): object => {
    const given = names.values();
    return nodeOf(chain.map((image) => (typeof image === 'string' ? (given.next().value ?? '') : image)));
  };
  return { files, describe };
}

/** Returns an argument that QEMU's programs open as chainNode describes. */
export function chainArgument(chain: ImageChain, writes = false): FileArgument {
  const { files, describe } = chainNode(chain, writes);
  return { files, word: (names) => jsonName(describe(names)) };
}

/** The name by which QEMU's programs open what is described. */
export const jsonName = (node: object): string => `json:${JSON.stringify(node)}`;

/** Returns the chain's name for people and their programs. Throws like readImageHeader. */
export async function chainName(chain: readonly string[]): Promise<string> {
  checkChain(chain);
  for (const path of chain) await readImageHeader(path);
  return jsonName(nodeOf(chain));
}

function checkChain(chain: ImageChain): void {
  const path = pathOf(chain[0]);
  if (chain.length > CHAIN_MAX) {
    throw CsiError.failedPrecondition(
      `the image ${path} is based on ${chain.length - 1} others, and at most ${CHAIN_MAX} images are opened at once: make ` +
        'a full backup, or prune',
    );
  }
  if (chain.length === 0 || !chain.every((image) => typeof image === 'object' || isAbsolute(image))) {
    throw CsiError.internal(`a chain of images has no or relative paths ('${path}'); report this as a bug`);
  }
}

function nodeOf(images: ImageChain): object {
  let node: object | null = null;
  for (const image of images.toReversed()) {
    const file =
      typeof image === 'string'
        ? { driver: 'file', filename: image }
        : { driver: 'nbd', server: { type: 'unix', path: image.socketPath } };
    node = { driver: 'qcow2', file, backing: node };
  }
  return node ?? {};
}
