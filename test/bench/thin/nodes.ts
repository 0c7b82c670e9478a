/**
 * How many nodes of two mapping trees belong to one of them only: by walking both whole and keeping
 * every block number in a set. Shares no code with the reader that is measured.
 */
import { closeSync, openSync, readSync } from 'node:fs';

const BLOCK_BYTES = 4096;
const NODE_HEAD_BYTES = 32;
/** In the superblock. */
const MAPPING_ROOT_AT = 320;
/** In a node: flags at 4, entries at 16, room for entries at 20. */
const FLAGS_AT = 4;
const COUNT_AT = 16;
const ROOM_AT = 20;
const INTERNAL = 1;

export interface NodeCount {
  /** In one tree only. */
  differing: number;
  /** In either tree, a shared node twice. */
  all: number;
}

export function countNodes(metadata: string, left: number, right: number): NodeCount {
  const file = openSync(metadata, 'r');
  try {
    const mappingRoot = Number(readBlock(file, 0).readBigUInt64LE(MAPPING_ROOT_AT));
    const trees = [left, right].map((deviceId) => nodesBelow(file, deviceRoot(file, mappingRoot, deviceId))) as [
      Set<number>,
      Set<number>,
    ];
    const shared = [...trees[0]].filter((node) => trees[1].has(node)).length;
    const all = trees[0].size + trees[1].size;
    return { differing: all - 2 * shared, all };
  } finally {
    closeSync(file);
  }
}

function readBlock(file: number, block: number): Buffer {
  const bytes = Buffer.allocUnsafe(BLOCK_BYTES);
  readSync(file, bytes, 0, BLOCK_BYTES, block * BLOCK_BYTES);
  return bytes;
}

function isInternal(node: Buffer): boolean {
  return node.readUInt32LE(FLAGS_AT) === INTERNAL;
}

/** Values have 8 bytes on both levels of the mapping tree. */
function valuesOf(node: Buffer): number[] {
  return wordsAt(node, NODE_HEAD_BYTES + 8 * node.readUInt32LE(ROOM_AT));
}

function wordsAt(node: Buffer, at: number): number[] {
  const count = node.readUInt32LE(COUNT_AT);
  return Array.from({ length: count }, (_, i) => Number(node.readBigUInt64LE(at + 8 * i)));
}

function deviceRoot(file: number, mappingRoot: number, deviceId: number): number {
  const node = readBlock(file, mappingRoot);
  const place = wordsAt(node, NODE_HEAD_BYTES).indexOf(deviceId);
  const root = isInternal(node) ? undefined : valuesOf(node)[place];
  if (root === undefined) throw new Error(`no device ${deviceId} in the node at ${mappingRoot}`);
  return root;
}

function nodesBelow(file: number, root: number): Set<number> {
  const nodes = new Set([root]);
  for (let level = [root]; level.length > 0; ) {
    const parents = level.map((block) => readBlock(file, block)).filter(isInternal);
    level = parents.flatMap(valuesOf);
    for (const block of level) nodes.add(block);
  }
  return nodes;
}
