/** `blockdelta delta BASE TARGET`: the ranges that differ between two snapshots of one volume. */
import type { Command } from 'commander';
import { addMetadataAction } from './commands.js';

export function addDeltaCommand(program: Command): void {
  const command = program
    .command('delta')
    .description('list the ranges that differ between two snapshots of one volume')
    .argument('<base>', 'id of the older snapshot')
    .argument('<target>', 'id of the newer snapshot');
  addMetadataAction(command, 'GetMetadataDelta', (base = '', target = '') => ({
    base_snapshot_id: base,
    target_snapshot_id: target,
  }));
}
