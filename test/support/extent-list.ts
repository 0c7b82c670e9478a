/** The extent map of a file as e2fsprogs' filefrag prints it, and what btrfs and XFS do to files. */
import { execFileSync } from 'node:child_process';

export interface ListedExtent {
  /** In file system blocks. */
  logical: number;
  physical: number;
  length: number;
  /** Names, such as encoded, inline, unwritten, shared, last, eof. */
  flags: string[];
}

/** `filefrag -v`, synced first. */
export function listExtents(path: string): ListedExtent[] {
  const line = /^ *\d+: +(\d+)\.\. *\d+: +(\d+)\.\. *\d+: +(\d+): *(?:\d+:)? *(.*)$/;
  return execFileSync('filefrag', ['-s', '-v', path], { encoding: 'utf8' })
    .split('\n')
    .flatMap((text) => {
      const match = line.exec(text);
      if (match === null) return [];
      const [, logical, physical, length, flags = ''] = match;
      return [
        {
          logical: Number(logical),
          physical: Number(physical),
          length: Number(length),
          flags: flags.split(',').filter((flag) => flag !== ''),
        },
      ];
    });
}

export function countWith(extents: readonly ListedExtent[], flag: string): number {
  return extents.filter((extent) => extent.flags.includes(flag)).length;
}

/** The address of every block of a file that has one, both in file system blocks. */
export function addresses(path: string): Map<number, number> {
  const where = new Map<number, number>();
  for (const { logical, physical, length } of listExtents(path)) {
    for (let block = 0; block < length; block += 1) where.set(logical + block, physical + block);
  }
  return where;
}
