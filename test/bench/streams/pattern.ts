/**
 * The synthetic lists that streams are measured with: a snapshot id says what its list is, so that servers need no
 * catalogue and no pool, and a peer written in C++ sends the same (test/bench/native/synthetic_list.h).
 */
import { execFileSync } from 'node:child_process';
import { nodeKey } from '../../../src/base/csi/handles.js';
import { packagePath } from '../../../src/base/package-root.js';
import { ServerProcess, type StartOptions } from './server-process.js';

export const EXTENT_BYTES = 4096;
const DENSE_STRIDE_BYTES = 8192;
/** What the plugin puts into one message. */
export const ENTRIES_PER_MESSAGE = 8192;
/** Of a sparse volume, whatever the number of entries. */
export const SPARSE_BYTES = 2 ** 44;

/** 'dense': every other block holds data. 'sparse': the entries are spread over 16 TiB. */
export type Layout = 'dense' | 'sparse';
const GROUPS: Readonly<Record<Layout, string>> = { dense: '4000', sparse: '4001' };

/** A scan of generated extents: `extentBytes` of data at every multiple of `strideBytes` below `sizeBytes`. */
export interface PatternSource {
  kind: 'pattern';
  sizeBytes: bigint;
  extentBytes: bigint;
  strideBytes: bigint;
}

/** Starts pattern-server.ts. Compiles its addon first, which takes some seconds where that has not been done. */
export function forkPatternServer(
  settings: Parameters<typeof ServerProcess.fork>[0],
  socketPath: string,
  options: Omit<StartOptions, 'preload'> = {},
): Promise<ServerProcess> {
  execFileSync('make', ['-s', '-f', 'scripts/native.mk', 'pattern'], { cwd: packagePath('.') });
  return ServerProcess.fork(settings, 'pattern-server', socketPath, { ...options, preload: 'pattern-addon' });
}

export interface Pattern {
  entries: number;
  sizeBytes: number;
  strideBytes: number;
}

/** It has the form of a handle of the node, so that a router can pass it on. */
export function patternSnapshotId(
  entries: number,
  { layout = 'dense', nodeId = 'bench' }: { layout?: Layout; nodeId?: string } = {},
): string {
  const digits = entries.toString(16).padStart(12, '0');
  return `snap-${nodeKey(nodeId)}-00000000-0000-${GROUPS[layout]}-8000-${digits}`;
}

export function patternOf(snapshotId: string): Pattern {
  const [, group, digits] = /^snap-[0-9a-f]{12}-00000000-0000-(400[01])-8000-([0-9a-f]{12})$/.exec(snapshotId) ?? [];
  const entries = Number(`0x${digits}`);
  if (!Number.isSafeInteger(entries)) throw new Error(`'${snapshotId}' is no synthetic snapshot`);
  const strideBytes = group === GROUPS.sparse ? SPARSE_BYTES / 2 ** Math.ceil(Math.log2(entries)) : DENSE_STRIDE_BYTES;
  return { entries, strideBytes, sizeBytes: entries * strideBytes };
}
