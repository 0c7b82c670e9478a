/**
 * A delta as thin_delta 0.9 of thin-provisioning-tools prints it, byte for byte, so that a script can
 * read ours instead. Of its peculiarities: the uuid is always empty, metadata_snap is told only when
 * the pool's own superblock was read, and the held copy has no nr_data_blocks but 0.
 */
import { ThinDeltaKind, type ThinSuperblock } from '../../native/thin-addon.js';
import type { Run, RunKind } from './runs.js';

const ELEMENTS: Readonly<Record<RunKind, string>> = {
  [ThinDeltaKind.SAME]: 'same',
  [ThinDeltaKind.LEFT_ONLY]: 'left_only',
  [ThinDeltaKind.RIGHT_ONLY]: 'right_only',
  [ThinDeltaKind.DIFFERENT]: 'different',
};
const SECTOR_BYTES = 512n;

export function xmlHead(superblock: ThinSuperblock, left: number, right: number): string {
  const attributes: [string, string | number | bigint][] = [
    ['uuid', ''],
    ['time', superblock.time],
    ['transaction', superblock.transactionId],
    ['data_block_size', superblock.dataBlockBytes / SECTOR_BYTES],
    ['nr_data_blocks', superblock.dataBlocks],
  ];
  if (superblock.heldRoot !== null) attributes.push(['metadata_snap', superblock.heldRoot]);
  const told = attributes.map(([name, value]) => `${name}="${value}"`).join(' ');
  return `<superblock ${told}>\n  <diff left="${left}" right="${right}">\n`;
}

export function xmlRows(runs: readonly Run[]): string {
  return runs
    .map(
      ({ kind, begin, length }) => `    <${ELEMENTS[kind]} begin="${begin}" length="${length}"/>\n`,
    )
    .join('');
}

export const XML_TAIL = '  </diff>\n</superblock>\n';
