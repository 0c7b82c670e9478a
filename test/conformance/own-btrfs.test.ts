import { assertConforms, BLOCK_ONLY, MOUNT_ONLY } from '../support/conformance-run.js';
import { isNightly } from '../support/nightly.js';
import { runPlugin, test } from '../support/running-plugin.js';

const running = runPlugin('conformance-btrfs', { pools: { default: 'btrfs' }, poolSizeMiB: 4096 });

/** How lists are cut into messages does not depend on the pool: the XFS pool has all checks. */
const OF_CONTENT = ['volume.*', 'snapshot.*', 'groups.*', 'delta.*', 'allocated.*'];

test('the plugin conforms with raw block volumes on a btrfs pool', () =>
  assertConforms(
    running,
    { access: ['block'], ...(isNightly ? {} : { only: OF_CONTENT }) },
    isNightly ? ['metadata.fixed-length', ...MOUNT_ONLY] : MOUNT_ONLY,
  ));

test('the plugin conforms with mounted volumes on a btrfs pool', () =>
  assertConforms(running, { access: ['mount'], only: OF_CONTENT }, BLOCK_ONLY));
