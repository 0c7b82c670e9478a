import { assertConforms, BLOCK_ONLY, MOUNT_ONLY } from '../support/conformance-run.js';
import { runPlugin, test } from '../support/running-plugin.js';

const running = runPlugin('conformance-xfs', { pools: { default: 'xfs' }, poolSizeMiB: 4096 });

test('the plugin conforms with raw block volumes on an XFS pool', () =>
  assertConforms(running, { access: ['block'] }, ['metadata.fixed-length', ...MOUNT_ONLY]));

test('the plugin conforms with mounted volumes on an XFS pool', () =>
  assertConforms(running, { access: ['mount'] }, ['metadata.fixed-length', ...BLOCK_ONLY]));
