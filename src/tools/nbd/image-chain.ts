/**
 * Names an image and all images below it for QEMU's programs. Every file is named, so that QEMU looks up no file by the
 * name in a header. The names in headers are for other tools, and may be the names of images that are gone.
 */
import { isAbsolute } from 'node:path';
import { CsiError } from '../../base/errors.js';
import type { FileArgument } from '../../base/process/program-arguments.js';
import { openImage, readImageHeader } from './image-header.js';

/** Absolute paths, the image itself first, the full image last. */
export type ImageChain = readonly string[];

/** What is read as a device: a raw file or block device, or an image. */
export type Content = { readonly device: string } | { readonly chain: ImageChain };

/** The most images in a chain: QEMU opens all images of a chain at once, and gets all their names in one argument. */
export const CHAIN_MAX = 200;

/**
 * Returns an argument that QEMU's programs open as this chain and nothing else. When a program starts, each file is
 * opened, its header is checked as in readImageHeader, and the program gets exactly these open files.
 *
 * @param writes the program may write the first image; compressed: it compresses all that it writes, which are whole clusters
 */
export function chainArgument(chain: ImageChain, writes: boolean | 'compressed' = false): FileArgument {
  checkChain(chain);
  const files = chain.map((path, index) => {
    const isWritten = writes !== false && index === 0;
    const use = isWritten ? ('write' as const) : ('read' as const);
    return { path, use, open: () => openImage(path, isWritten) };
  });
  return { files, word: (paths) => nameOf(paths, writes === 'compressed') };
}

/** Returns the chain's name for people and their programs. Throws like readImageHeader. */
export async function chainName(chain: ImageChain): Promise<string> {
  checkChain(chain);
  for (const path of chain) await readImageHeader(path);
  return nameOf(chain);
}

function checkChain(chain: ImageChain): void {
  const [path = ''] = chain;
  if (chain.length > CHAIN_MAX) {
    throw CsiError.failedPrecondition(
      `the image ${path} is based on ${chain.length - 1} others, and at most ${CHAIN_MAX} images are opened at once: make ` +
        'a full backup, or prune',
    );
  }
  if (chain.length === 0 || !chain.every(isAbsolute)) {
    throw CsiError.internal(`a chain of images has no or relative paths ('${path}'); report this as a bug`);
  }
}

function nameOf(files: readonly string[], isCompressed = false): string {
  let node: object | null = null;
  for (const filename of files.toReversed()) {
    node = { driver: 'qcow2', file: { driver: 'file', filename }, backing: node };
  }
  return `json:${JSON.stringify(isCompressed ? { driver: 'compress', file: node } : node)}`;
}
