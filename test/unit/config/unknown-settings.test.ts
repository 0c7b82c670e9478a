/** Variables that look like settings and are none. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseConfig, SETTINGS, unknownNames } from '../../../src/config/config.js';

const ENDPOINT = { CSI_ENDPOINT: 'unix:///run/b/csi.sock' };

const MISSPELT: readonly [string, string][] = [
  ['BLOCKDELTA_POOL', 'BLOCKDELTA_POOLS'],
  ['BLOCKDELTA_STATEDIR', 'BLOCKDELTA_STATE_DIR'],
  ['BLOCKDELTA_NODE_DI', 'BLOCKDELTA_NODE_ID'],
  ['blockdelta_pools', 'BLOCKDELTA_POOLS'],
  ['BLOCKDELTA_OVERCOMIT', 'BLOCKDELTA_OVERCOMMIT'],
];
for (const [name, nearest] of MISSPELT) {
  test(`${name} is refused, and ${nearest} is named`, () => {
    assert.throws(() => parseConfig({ ...ENDPOINT, [name]: 'x' }), {
      name: 'ConfigError',
      message: `${name} is not a setting: did you mean ${nearest}?`,
    });
  });
}

test('a name that only resembles a setting is listed with it and refused nowhere', () => {
  const env = { ...ENDPOINT, BLOCKDELTA_STATE_DIRECTORY: '/x', BLOCKDELTA_EMPTY: '', OTHER: 'x' };
  parseConfig(env);
  assert.deepEqual(unknownNames(env), [
    { name: 'BLOCKDELTA_STATE_DIRECTORY', nearest: 'BLOCKDELTA_STATE_DIR', misspelt: false },
  ]);
});

test("Kubernetes' variables for a Service named blockdelta are passed over", () => {
  const names = [
    'BLOCKDELTA_SERVICE_HOST',
    'BLOCKDELTA_SERVICE_PORT',
    'BLOCKDELTA_SERVICE_PORT_METRICS',
    'BLOCKDELTA_PORT',
    'BLOCKDELTA_PORT_9810_TCP',
    'BLOCKDELTA_PORT_9810_TCP_ADDR',
    'BLOCKDELTA_ROUTER_SERVICE_HOST',
  ];
  assert.deepEqual(unknownNames(Object.fromEntries(names.map((name) => [name, 'tcp://x']))), []);
});

test('no setting is a misspelling of another one', () => {
  for (const name of [...Object.keys(SETTINGS), 'BLOCKDELTA_RUNTIME_DIR'])
    assert.deepEqual(unknownNames({ [name]: 'x' }), []);
});
