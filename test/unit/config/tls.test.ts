import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ConfigError, parseConfig } from '../../../src/config/config.js';
import { formatHostPort } from '../../../src/config/tls.js';

const BASE = { CSI_ENDPOINT: 'unix:///run/csi.sock' };
const FILES = {
  BLOCKDELTA_TLS_CERTIFICATE: '/tls/tls.crt',
  BLOCKDELTA_TLS_KEY: '/tls/tls.key',
  BLOCKDELTA_TLS_CA: '/tls/ca.crt',
};
const ADDRESS = { BLOCKDELTA_LISTEN_ADDRESS: '10.0.0.1:9810' };

const parse = (env: Record<string, string>) => parseConfig({ ...BASE, ...env });

function refusal(env: Record<string, string>): string {
  try {
    parse(env);
  } catch (thrown) {
    assert.ok(thrown instanceof ConfigError);
    return thrown.message;
  }
  throw new Error('the settings were accepted');
}

test('without an address and files there is no listener', () => {
  assert.equal(parse({}).listen, null);
});

test('an address and three files make a listener for routers', () => {
  const { listen } = parse({ ...ADDRESS, ...FILES });
  assert.deepEqual(listen, {
    address: { host: '10.0.0.1', port: 9810 },
    tls: {
      certificateFile: '/tls/tls.crt',
      keyFile: '/tls/tls.key',
      caFile: '/tls/ca.crt',
      peerName: 'blockdelta-router',
    },
  });
  const named = parse({ ...ADDRESS, ...FILES, BLOCKDELTA_TLS_PEER_NAME: 'r.example' });
  assert.equal(named.listen?.tls.peerName, 'r.example');
});

test('an incomplete set of TLS settings names what is missing', () => {
  for (const missing of Object.keys(FILES)) {
    const env: Record<string, string> = { ...ADDRESS, ...FILES };
    delete env[missing];
    assert.match(refusal(env), new RegExp(`^${missing} is not set, but`));
  }
  assert.match(
    refusal(ADDRESS),
    /CERTIFICATE and BLOCKDELTA_TLS_KEY and BLOCKDELTA_TLS_CA are not/,
  );
  assert.match(
    refusal(FILES),
    /BLOCKDELTA_TLS_CERTIFICATE is set and BLOCKDELTA_LISTEN_ADDRESS is not/,
  );
});

test('addresses, paths and names that cannot be right are refused', () => {
  for (const address of ['10.0.0.1', ':9810', '10.0.0.1:65536', 'a b:1', 'fd00::1:9810']) {
    const env = { ...FILES, BLOCKDELTA_LISTEN_ADDRESS: address };
    assert.match(refusal(env), /BLOCKDELTA_LISTEN_ADDRESS is '.*': it must be host:port/, address);
  }
  assert.match(
    refusal({ ...ADDRESS, ...FILES, BLOCKDELTA_TLS_KEY: 'key.pem' }),
    /TLS_KEY is 'key.pem'/,
  );
  for (const name of ['*.example', 'a..b', '-a', 'a b']) {
    const env = { ...ADDRESS, ...FILES, BLOCKDELTA_TLS_PEER_NAME: name };
    assert.match(refusal(env), /BLOCKDELTA_TLS_PEER_NAME/, name);
  }
});

test('an IPv6 address is written in brackets', () => {
  const { listen } = parse({ ...FILES, BLOCKDELTA_LISTEN_ADDRESS: '[fd00::1]:9810' });
  assert.equal(listen?.address.host, 'fd00::1');
  assert.equal(formatHostPort({ host: 'fd00::1', port: 9810 }), '[fd00::1]:9810');
});
