import { assertConforms } from '../support/conformance-run.js';
import { runPlugin, test } from '../support/running-plugin.js';

const running = runPlugin('conformance-modes', {
  pools: { default: 'xfs' },
  poolSizeMiB: 4096,
  env: { BLOCKDELTA_CONTROLLER_PUBLISH: 'on', BLOCKDELTA_CSI_LEVEL: '1.13' },
});

test('the plugin conforms with volumes attached by the controller, and with what CSI 1.13 added', () =>
  assertConforms(
    running,
    {
      only: [
        'identity.*',
        'capability.*',
        'node.*',
        'volume.*',
        'snapshot.*',
        'status.*',
        'metadata.read-while-streaming',
        'delta.content*',
        'delta.restored',
        'groups.create',
      ],
      mountFileSystem: 'xfs',
    },
    [],
  ));
