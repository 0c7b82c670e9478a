import { assertConforms, BLOCK_ONLY, LOSSES, MOUNT_ONLY } from '../support/conformance-run.js';
import { isNightly } from '../support/nightly.js';
import { runPlugin, test } from '../support/running-plugin.js';

const running = runPlugin('conformance-btrfs', { pools: { default: 'btrfs' }, poolSizeMiB: 4096 });

/** How lists are cut into messages, and what calls answer, does not depend on the pool: the XFS pool has all checks. */
const OF_CONTENT = ['volume.*', 'snapshot.*', 'groups.*', 'delta.*', 'allocated.*'];
const OF_THE_POOL = ['delta.content', 'delta.restored', 'groups.write-order', 'allocated.content'];

test('the plugin conforms with raw block volumes on a btrfs pool', () =>
  assertConforms(
    running,
    { access: ['block'], ...(isNightly ? { skip: ['loss.*'] } : { only: OF_THE_POOL }) },
    isNightly ? ['metadata.fixed-length', ...LOSSES, ...MOUNT_ONLY] : [],
  ));

test('the plugin conforms with mounted volumes on a btrfs pool', () =>
  assertConforms(
    running,
    { access: ['mount'], only: isNightly ? OF_CONTENT : MOUNT_ONLY },
    isNightly ? BLOCK_ONLY : [],
  ));
