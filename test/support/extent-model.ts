/**
 * A naive model of the scan: every byte of a small volume by itself. An extent is
 * logical, physical, length and FIEMAP flags.
 */
import type { Range } from './csi-client.js';
import type { Random } from './random.js';

export interface Extent {
  logical: number;
  physical: number;
  length: number;
  flags: number;
}

export const UNWRITTEN = 0x800;
/** UNKNOWN, DELALLOC, ENCODED, DATA_ENCRYPTED, NOT_ALIGNED, DATA_INLINE, DATA_TAIL. */
export const OPAQUE_FLAGS = [0x2, 0x4, 0x8, 0x80, 0x100, 0x200, 0x400] as const;
/** LAST, MERGED and SHARED say nothing about content. */
export const HARMLESS_FLAGS = [0x1, 0x1000, 0x2000] as const;
const OPAQUE_MASK = 0x78e;

export function words(extents: readonly Extent[]): BigUint64Array {
  return BigUint64Array.from(
    extents.flatMap(({ logical, physical, length, flags }) =>
      [logical, physical, length, flags].map(BigInt),
    ),
  );
}

/** What one byte is made of: 'zero', 'opaque', or its address. */
type Byte = 'zero' | 'opaque' | number;

function bytesOf(extents: readonly Extent[], sizeBytes: number): Byte[] {
  const bytes: Byte[] = new Array(sizeBytes).fill('zero');
  for (const { logical, physical, length, flags } of extents) {
    for (let at = 0; at < length && logical + at < sizeBytes; at += 1) {
      if ((flags & OPAQUE_MASK) !== 0) bytes[logical + at] = 'opaque';
      else if ((flags & UNWRITTEN) === 0) bytes[logical + at] = physical + at;
    }
  }
  return bytes;
}

/** The ranges of the list from `start` on, by looking at every byte. */
export function expectedRanges(
  sizeBytes: number,
  target: readonly Extent[],
  base: readonly Extent[] | null,
  start = 0,
): Range[] {
  const after = bytesOf(target, sizeBytes);
  const before = base === null ? null : bytesOf(base, sizeBytes);
  const ranges: { from: number; to: number }[] = [];
  for (let at = start; at < sizeBytes; at += 1) {
    const now = after[at];
    const reported = before === null ? now !== 'zero' : now === 'opaque' || now !== before[at];
    if (!reported) continue;
    const last = ranges.at(-1);
    if (last !== undefined && last.to === at) last.to = at + 1;
    else ranges.push({ from: at, to: at + 1 });
  }
  return ranges.map(({ from, to }) => ({ offset: BigInt(from), size: BigInt(to - from) }));
}

/** A map that a file system could give: ascending, apart or touching, also behind the end. */
export function randomExtents(random: Random, sizeBytes: number): Extent[] {
  const extents: Extent[] = [];
  let logical = random.below(20);
  while (logical < sizeBytes + 10) {
    const length = 1 + random.below(30);
    extents.push({
      logical,
      length,
      physical: 1000 + random.below(200),
      flags: randomFlags(random),
    });
    logical += length + (random.below(2) === 0 ? 0 : random.below(40));
  }
  return extents;
}

/** A later map of the same volume: mostly the same addresses, cut and merged differently. */
export function randomSuccessor(random: Random, extents: readonly Extent[]): Extent[] {
  return extents.flatMap((extent) => {
    const kind = random.below(8);
    if (kind === 0) return [];
    if (kind === 1) return [{ ...extent, physical: 1000 + random.below(200) }];
    if (kind === 2) return [{ ...extent, flags: randomFlags(random) }];
    if (kind >= 5 || extent.length < 2) return [extent];
    const cut = 1 + random.below(extent.length - 1);
    const rest = { logical: extent.logical + cut, length: extent.length - cut };
    const moved = kind === 3 ? 0 : random.below(3);
    return [
      { ...extent, length: cut },
      { ...extent, ...rest, physical: extent.physical + cut + moved },
    ];
  });
}

function randomFlags(random: Random): number {
  let flags = random.below(3) === 0 ? random.pick(HARMLESS_FLAGS) : 0;
  if (random.below(5) === 0) flags |= UNWRITTEN;
  if (random.below(8) === 0) flags |= random.pick(OPAQUE_FLAGS);
  return flags;
}
