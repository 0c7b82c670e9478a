/** `blockdelta allocated SNAPSHOT`: the ranges of a snapshot that hold data. */
import type { Command } from 'commander';
import { addMetadataAction } from './commands.js';

export function addAllocatedCommand(program: Command): void {
  const command = program
    .command('allocated')
    .description('list the ranges of a snapshot that hold data')
    .argument('<snapshot>', 'id of the snapshot');
  addMetadataAction(command, 'GetMetadataAllocated', (snapshot = '') => ({
    snapshot_id: snapshot,
  }));
}
