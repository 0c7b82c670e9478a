import { assertConforms, BLOCK_ONLY, LOSSES, MOUNT_ONLY } from '../support/conformance-run.js';
import { isNightly } from '../support/nightly.js';
import { runPlugin, test } from '../support/running-plugin.js';

const running = runPlugin('conformance-xfs', { pools: { default: 'xfs' }, poolSizeMiB: 4096 });

test('the plugin conforms with raw block volumes on an XFS pool', () =>
  assertConforms(running, { access: ['block'], skip: ['loss.*'] }, [
    'metadata.fixed-length',
    ...LOSSES,
    ...MOUNT_ONLY,
  ]));

/** Of the checks that raw block volumes do not need, those that mounted ones have in another way. */
const OF_MOUNTS = ['volume.publish-twice', ...MOUNT_ONLY];

test('the plugin conforms with mounted volumes on an XFS pool', () =>
  assertConforms(
    running,
    { access: ['mount'], only: isNightly ? [] : OF_MOUNTS },
    isNightly ? ['metadata.fixed-length', ...BLOCK_ONLY] : [],
  ));
