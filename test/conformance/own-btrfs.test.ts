import { assertConforms, BLOCK_ONLY, MOUNT_ONLY } from '../support/conformance-run.js';
import { runPlugin, test } from '../support/running-plugin.js';

const running = runPlugin('conformance-btrfs', { pools: { default: 'btrfs' }, poolSizeMiB: 4096 });

test('the plugin conforms with raw block volumes on a btrfs pool', () =>
  assertConforms(running, { access: ['block'] }, ['metadata.fixed-length', ...MOUNT_ONLY]));

/** The form of lists does not depend on what a volume holds: the XFS pool has all checks of mounted volumes. */
const OF_CONTENT = ['volume.*', 'snapshot.*', 'groups.*', 'delta.*', 'allocated.*'];

test('the plugin conforms with mounted volumes on a btrfs pool', () =>
  assertConforms(running, { access: ['mount'], only: OF_CONTENT }, BLOCK_ONLY));
