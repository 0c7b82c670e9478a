/** A backup in a repository: its manifest, and where it is. Knows no other backup. */
import { join } from 'node:path';
import type { Manifest } from './manifest.js';

export interface Backup {
  readonly manifest: Manifest;
  /** Name of the manifest's file. */
  readonly name: string;
  /** The directory of its volume. */
  readonly directory: string;
}

/** Something wrong with the file at `path`. */
export interface Problem {
  readonly path: string;
  readonly found: string;
}

/** The paths of the images, the full image last. */
export function imagesOf(chain: readonly Backup[]): string[] {
  return chain.map(imagePathOf).reverse();
}

export const imagePathOf = ({ directory, manifest }: Backup): string => join(directory, manifest.image.file);

/** When its snapshot was taken, in milliseconds. */
export const timeOf = ({ manifest }: Backup): number => Date.parse(manifest.snapshot.creationTime);
