import assert from 'node:assert/strict';
import { hostname } from 'node:os';
import { test } from 'node:test';
import { formatHostPort } from '../../../src/base/settings/tls.js';
import { type Config, parseConfig, SETTINGS, unknownNames } from '../../../src/driver/config/config.js';

const CSI_ENDPOINT = 'unix:///run/blockdelta/csi.sock';

const THIN = { dataBlockBytes: 64n << 10n, passDiscards: true, errorWhenFull: true, lowWaterPercent: 10n };

test('E6 and E15: the endpoint alone is enough: everything else has a default', () => {
  assert.deepEqual(parseConfig({ CSI_ENDPOINT }), {
    endpoint: CSI_ENDPOINT,
    socketPath: '/run/blockdelta/csi.sock',
    listen: null,
    socketMode: 0o600,
    nodeId: hostname(),
    driverName: 'blockdelta.csi',
    stateDirectory: '/var/lib/blockdelta',
    pools: [{ kind: 'reflink', name: 'default', directory: '/var/lib/blockdelta/pools/default', place: 'any' }],
    embeddedPoolBytes: null,
    embeddedPoolAllocation: 'full',
    changeLists: true,
    guardianSocket: null,
    freezeLimitMs: 60_000,
    thin: THIN,
    overcommitPercent: 100n,
    reservePercent: 5n,
    retainedBasesPerVolume: 16,
    retainedBasesAgeMs: 30 * 24 * 3_600_000,
    retainedBasesPoolBytes: 1n << 30n,
    csiLevel: '1.12',
    legacyVersions: [],
    legacyStagingDirectory: '/run/blockdelta-staging',
    controllerPublish: false,
    maxVolumesPerNode: 0,
    topologyKey: 'blockdelta.csi/node',
    cgroupRoot: '/sys/fs/cgroup',
    mountPropagation: 'auto',
    logLevel: 'info',
    metricsAddress: null,
    metricsOfVolumes: true,
    shutdownGraceMs: 20_000,
    maxConnections: 128,
    maxCalls: 1000,
    maxStreams: 64,
    streamStallMs: 60_000,
    scanThreads: 2,
    deviceThreads: 4,
    transfers: { ports: [], host: '0.0.0.0', bytesPerSecond: null },
    volumeThreads: 12,
  });
});

const DEVICES = { metadata: '/dev/vg/meta', data: '/dev/disk/by-id/x=1' };

/** A value of a setting, and what it makes of the configuration beside the defaults. */
const TAKEN: readonly [setting: keyof typeof SETTINGS, value: string, as: Partial<Config>][] = [
  ['BLOCKDELTA_SOCKET_MODE', '660', { socketMode: 0o660 }],
  ['BLOCKDELTA_NODE_ID', 'node-1', { nodeId: 'node-1' }],
  // The topology key follows the name of the driver, in lower case.
  ['BLOCKDELTA_DRIVER_NAME', 'Disks.Example', { driverName: 'Disks.Example', topologyKey: 'disks.example/node' }],
  [
    'BLOCKDELTA_STATE_DIR',
    '/state//here/',
    {
      stateDirectory: '/state/here',
      pools: [{ kind: 'reflink', name: 'default', directory: '/state/here/pools/default', place: 'any' }],
    },
  ],
  [
    'BLOCKDELTA_POOLS',
    'fast=directory:/mnt/a,slow-2=/mnt/b/,file=image:/mnt/e,own=thin:/mnt/c/,given=thin:/mnt/d;data=/dev/disk/by-id/x=1;metadata=/dev/vg/meta',
    {
      pools: [
        { kind: 'reflink', name: 'fast', directory: '/mnt/a', place: 'directory' },
        { kind: 'reflink', name: 'slow-2', directory: '/mnt/b', place: 'any' },
        { kind: 'reflink', name: 'file', directory: '/mnt/e', place: 'image' },
        { kind: 'thin', name: 'own', directory: '/mnt/c', devices: null },
        { kind: 'thin', name: 'given', directory: '/mnt/d', devices: DEVICES },
      ],
    },
  ],
  ['BLOCKDELTA_EMBEDDED_POOL_SIZE', '20Gi', { embeddedPoolBytes: 20n << 30n }],
  ['BLOCKDELTA_EMBEDDED_POOL_SIZE', '512Mi', { embeddedPoolBytes: 512n << 20n }],
  ['BLOCKDELTA_EMBEDDED_POOL_ALLOCATE', 'sparse', { embeddedPoolAllocation: 'sparse' }],
  ['BLOCKDELTA_CHANGE_LISTS', 'off', { changeLists: false }],
  ['BLOCKDELTA_THIN_BLOCK_SIZE', '512Ki', { thin: { ...THIN, dataBlockBytes: 512n << 10n } }],
  ['BLOCKDELTA_THIN_DISCARDS', 'keep', { thin: { ...THIN, passDiscards: false } }],
  ['BLOCKDELTA_THIN_WHEN_FULL', 'queue', { thin: { ...THIN, errorWhenFull: false } }],
  ['BLOCKDELTA_THIN_LOW_WATER_PERCENT', '5', { thin: { ...THIN, lowWaterPercent: 5n } }],
  ['BLOCKDELTA_OVERCOMMIT', '1', { overcommitPercent: 100n }],
  ['BLOCKDELTA_OVERCOMMIT', '1.05', { overcommitPercent: 105n }],
  ['BLOCKDELTA_OVERCOMMIT', '100', { overcommitPercent: 10_000n }],
  ['BLOCKDELTA_RESERVE_PERCENT', '0', { reservePercent: 0n }],
  ['BLOCKDELTA_RETAINED_BASES_COUNT', '0', { retainedBasesPerVolume: 0 }],
  ['BLOCKDELTA_RETAINED_BASES_AGE', '12h', { retainedBasesAgeMs: 12 * 3_600_000 }],
  ['BLOCKDELTA_RETAINED_BASES_SIZE', '256Mi', { retainedBasesPoolBytes: 256n << 20n }],
  ['BLOCKDELTA_CSI_LEVEL', '1.13', { csiLevel: '1.13' }],
  ['BLOCKDELTA_LEGACY_CSI', '0.3, 0.1', { legacyVersions: ['0.3', '0.1'] }],
  ['BLOCKDELTA_LEGACY_STAGING_DIR', '/beside/', { legacyStagingDirectory: '/beside' }],
  ['BLOCKDELTA_CONTROLLER_PUBLISH', 'on', { controllerPublish: true }],
  ['BLOCKDELTA_MAX_VOLUMES_PER_NODE', '110', { maxVolumesPerNode: 110 }],
  ['BLOCKDELTA_TOPOLOGY_KEY', 'example.org/host', { topologyKey: 'example.org/host' }],
  ['BLOCKDELTA_TOPOLOGY_KEY', 'node', { topologyKey: 'node' }],
  ['BLOCKDELTA_CGROUP_ROOT', '/run/cgroup', { cgroupRoot: '/run/cgroup' }],
  ['BLOCKDELTA_FREEZE_LIMIT_SECONDS', '5', { freezeLimitMs: 5000 }],
  ['BLOCKDELTA_GUARDIAN_SOCKET', '/run/guardian.sock', { guardianSocket: '/run/guardian.sock' }],
  ['BLOCKDELTA_MOUNT_PROPAGATION', 'required', { mountPropagation: 'required' }],
  ['BLOCKDELTA_LOG_LEVEL', 'debug', { logLevel: 'debug' }],
  ['BLOCKDELTA_METRICS_ADDRESS', 'localhost:80', { metricsAddress: { host: 'localhost', port: 80 } }],
  ['BLOCKDELTA_METRICS_ADDRESS', '[::1]:0', { metricsAddress: { host: '::1', port: 0 } }],
  ['BLOCKDELTA_METRICS_VOLUMES', 'off', { metricsOfVolumes: false }],
  ['BLOCKDELTA_SHUTDOWN_GRACE_SECONDS', '0', { shutdownGraceMs: 0 }],
  ['BLOCKDELTA_MAX_CONNECTIONS', '64', { maxConnections: 64 }],
  ['BLOCKDELTA_MAX_CALLS', '500', { maxCalls: 500 }],
  ['BLOCKDELTA_MAX_STREAMS', '16', { maxStreams: 16 }],
  ['BLOCKDELTA_STREAM_STALL_SECONDS', '30', { streamStallMs: 30_000 }],
  ['BLOCKDELTA_SCAN_THREADS', '64', { scanThreads: 64 }],
  ['BLOCKDELTA_DEVICE_THREADS', '1', { deviceThreads: 1 }],
  ['BLOCKDELTA_VOLUME_THREADS', '64', { volumeThreads: 64 }],
];

test('every setting can be given, and changes nothing but what it says', () => {
  const defaults = parseConfig({ CSI_ENDPOINT });
  for (const [name, value, as] of TAKEN) {
    assert.deepEqual(parseConfig({ CSI_ENDPOINT, [name]: value }), { ...defaults, ...as }, name);
  }
  const given = new Set<string>(['CSI_ENDPOINT', ...TAKEN.map(([name]) => name)]);
  const others = Object.keys(SETTINGS).filter((name) => !given.has(name));
  assert.ok(
    others.every((name) => /_(LISTEN|TLS|TRANSFER)_/.test(name)),
    `${others}`,
  );
});

test('an empty variable counts as unset, as deployment templates leave them', () => {
  const empty = Object.fromEntries(Object.keys(SETTINGS).map((name) => [name, '']));
  assert.deepEqual(parseConfig({ ...empty, CSI_ENDPOINT }), parseConfig({ CSI_ENDPOINT }));
  assert.throws(() => parseConfig(empty), /CSI_ENDPOINT is not set/);
});

test('a configuration cannot be changed after parsing', () => {
  const config = parseConfig({ CSI_ENDPOINT });
  assert.ok(Object.isFrozen(config) && Object.isFrozen(config.pools));
  assert.ok(config.pools.every((pool) => Object.isFrozen(pool)));
});

/** A setting, what is said of wrong values, and those. */
const WRONG: readonly [name: string, found: RegExp, ...values: string[]][] = [
  ['CSI_ENDPOINT', /not set/, ''],
  ['CSI_ENDPOINT', /only unix:\/\//, 'run/csi.sock', 'tcp://0.0.0.0:1', 'unix:/run/csi.sock'],
  ['CSI_ENDPOINT', /absolute/, 'unix://run/csi.sock'],
  ['CSI_ENDPOINT', /normalized/, 'unix:///run/../csi.sock', 'unix:///run//csi.sock'],
  ['CSI_ENDPOINT', /end in \.sock/, 'unix:///run/csi'],
  ['CSI_ENDPOINT', /108 bytes long; the kernel accepts 107/, `unix:///${'d'.repeat(102)}.sock`],
  ['BLOCKDELTA_SOCKET_MODE', /octal/, '888', '4755'],
  ['BLOCKDELTA_NODE_ID', /printable/, 'a b'],
  ['BLOCKDELTA_NODE_ID', /128/, 'n'.repeat(129)],
  ['BLOCKDELTA_DRIVER_NAME', /letter first and last/, '1st.example'],
  ['BLOCKDELTA_DRIVER_NAME', /63/, 'a'.repeat(64)],
  ['BLOCKDELTA_DRIVER_NAME', /domain name/, 'under_score'],
  ['BLOCKDELTA_STATE_DIR', /absolute/, 'relative'],
  ['BLOCKDELTA_STATE_DIR', /root directory/, '/'],
  ['BLOCKDELTA_POOLS', /name=\/directory/, 'nodirectory', 'a=/a,'],
  ['BLOCKDELTA_POOLS', /lower-case/, 'Upper=/a'],
  ['BLOCKDELTA_POOLS', /absolute/, 'a=relative', 'a=thin:relative', 'a=image:b'],
  ['BLOCKDELTA_POOLS', /absolute/, 'a=thin:/a;metadata=/dev/x;data='],
  ['BLOCKDELTA_POOLS', /'a' is given twice/, 'a=/a,a=/b'],
  ['BLOCKDELTA_POOLS', /'\/a' is given twice/, 'a=/a,b=/a/'],
  ['BLOCKDELTA_POOLS', /both of its devices or none/, 'a=thin:/a;metadata=/dev/x'],
  ['BLOCKDELTA_POOLS', /both of its/, 'a=thin:/a;metadata=/dev/x;data=/dev/y;data=/dev/z'],
  ['BLOCKDELTA_POOLS', /'\/dev\/x' is given twice/, 'a=thin:/a;metadata=/dev/x;data=/dev/x'],
  ['BLOCKDELTA_THIN_BLOCK_SIZE', /multiple of 64Ki/, '4Ki', '100Ki'],
  ['BLOCKDELTA_THIN_BLOCK_SIZE', /64Ki to 1Gi/, '2Gi'],
  ['BLOCKDELTA_THIN_DISCARDS', /passdown, keep/, 'on'],
  ['BLOCKDELTA_THIN_WHEN_FULL', /error, queue/, 'wait'],
  ['BLOCKDELTA_THIN_LOW_WATER_PERCENT', /from 1 to 50/, '0'],
  ['BLOCKDELTA_CHANGE_LISTS', /on/, 'maybe'],
  ['BLOCKDELTA_EMBEDDED_POOL_ALLOCATE', /full/, 'none'],
  ['BLOCKDELTA_EMBEDDED_POOL_SIZE', /Ki, Mi, Gi or Ti/, '20GB', '0', '-1'],
  ['BLOCKDELTA_EMBEDDED_POOL_SIZE', /at least 512Mi/, '536870911', '511Mi'],
  ['BLOCKDELTA_OVERCOMMIT', /1 to 100/, '0.99', '100.01', '1.234', 'much'],
  ['BLOCKDELTA_RESERVE_PERCENT', /0 to 50/, '51'],
  ['BLOCKDELTA_RETAINED_BASES_COUNT', /0 to 10000/, '10001'],
  ['BLOCKDELTA_RETAINED_BASES_AGE', /hours or days/, '0d'],
  ['BLOCKDELTA_RETAINED_BASES_AGE', /ten years/, '3651d'],
  ['BLOCKDELTA_RETAINED_BASES_AGE', /such as 12h or 30d/, '30'],
  ['BLOCKDELTA_RETAINED_BASES_SIZE', /Ki, Mi, Gi or Ti/, '1G'],
  ['BLOCKDELTA_CSI_LEVEL', /1\.10, 1\.11, 1\.12, 1\.13/, '1.9'],
  ['BLOCKDELTA_LEGACY_CSI', /one of 0\.3, 0\.1/, '0.2', '0.3,'],
  ['BLOCKDELTA_LEGACY_CSI', /0\.3 is there twice/, '0.3,0.3'],
  ['BLOCKDELTA_LEGACY_STAGING_DIR', /absolute/, 'staging'],
  ['BLOCKDELTA_CONTROLLER_PUBLISH', /on, off/, 'true'],
  ['BLOCKDELTA_MAX_VOLUMES_PER_NODE', /whole number/, '-1'],
  ['BLOCKDELTA_TOPOLOGY_KEY', /like blockdelta.csi\/node/, 'Upper.example/node', 'example.org/'],
  ['BLOCKDELTA_TOPOLOGY_KEY', /63/, `${'a'.repeat(64)}/node`],
  ['BLOCKDELTA_CGROUP_ROOT', /absolute/, 'sys'],
  ['BLOCKDELTA_GUARDIAN_SOCKET', /absolute/, 'guardian.sock'],
  ['BLOCKDELTA_GUARDIAN_SOCKET', /107/, `/${'a'.repeat(107)}`],
  ['BLOCKDELTA_MOUNT_PROPAGATION', /auto.*required.*off/, 'on'],
  ['BLOCKDELTA_LOG_LEVEL', /one of trace/, 'verbose'],
  ['BLOCKDELTA_SHUTDOWN_GRACE_SECONDS', /whole number/, '1.5'],
  ['BLOCKDELTA_SHUTDOWN_GRACE_SECONDS', /0 to 3600/, '3601'],
  ['BLOCKDELTA_SCAN_THREADS', /1 to 64/, '0'],
  ['BLOCKDELTA_DEVICE_THREADS', /1 to 64/, '65'],
  ['BLOCKDELTA_VOLUME_THREADS', /1 to 64/, '0'],
];

function refuses(env: Record<string, string>, message: RegExp | string, what?: string): void {
  const error = { name: 'ConfigError', message };
  assert.throws(() => parseConfig({ CSI_ENDPOINT, ...env }), error, what);
}

test('a value that cannot be right is refused, with the name of its setting', () => {
  for (const [name, found, ...values] of WRONG) {
    const message = new RegExp(`^.*${name}.*${found.source}`);
    for (const value of values) refuses({ [name]: value }, message, `${name}='${value}'`);
  }
});

test('volumes are staged for CSI 0.1 outside of the state directory, the pools and the directory of the socket', () => {
  const parse = (endpoint: string, versions: string, directory = '') =>
    parseConfig({
      CSI_ENDPOINT: `unix://${endpoint}`,
      BLOCKDELTA_POOLS: 'a=/mnt/a',
      BLOCKDELTA_LEGACY_CSI: versions,
      BLOCKDELTA_LEGACY_STAGING_DIR: directory,
    }).legacyStagingDirectory;
  assert.equal(parse('/run/csi/a.sock', '0.1'), '/run/blockdelta-staging');
  for (const directory of ['/var/lib/blockdelta/staging', '/mnt/a', '/run/csi/staging']) {
    assert.throws(
      () => parse('/run/csi/a.sock', '0.3,0.1', directory),
      /BLOCKDELTA_LEGACY_STAGING_DIR is '.*': it must not be in/,
    );
  }
  // The default lies beside this socket, which is no matter where nothing is staged.
  assert.throws(() => parse('/run/a.sock', '0.1'), /it must not be in \/run,/);
  assert.equal(parse('/run/a.sock', '0.3'), '/run/blockdelta-staging');
});

test('E2: a socket path of 107 bytes is taken, the longest the kernel binds', () => {
  const path = `/${'d'.repeat(101)}.sock`;
  assert.equal(Buffer.byteLength(path), 107);
  assert.equal(parseConfig({ CSI_ENDPOINT: `unix://${path}` }).socketPath, path);
});

test('E5: no setting of ours begins with CSI_, which belongs to the specification', () => {
  const own = Object.keys(SETTINGS).filter((name) => name !== 'CSI_ENDPOINT');
  assert.ok(own.every((name) => name.startsWith('BLOCKDELTA_')));
});

test('every default that the settings table shows is one that parsing takes', () => {
  const defaults = Object.entries(SETTINGS).flatMap(([name, { fallback }]) =>
    fallback === null ? [] : [[name, fallback]],
  );
  assert.deepEqual(parseConfig({ ...Object.fromEntries(defaults), CSI_ENDPOINT }), parseConfig({ CSI_ENDPOINT }));
});

const FILES = {
  BLOCKDELTA_TLS_CERTIFICATE: '/tls/tls.crt',
  BLOCKDELTA_TLS_KEY: '/tls/tls.key',
  BLOCKDELTA_TLS_CA: '/tls/ca.crt',
};
const ADDRESS = { BLOCKDELTA_LISTEN_ADDRESS: '10.0.0.1:9810' };

test('an address, of IPv6 in brackets, and three files make a listener for routers', () => {
  const { listen } = parseConfig({ CSI_ENDPOINT, ...ADDRESS, ...FILES });
  assert.deepEqual(listen, {
    address: { host: '10.0.0.1', port: 9810 },
    tls: {
      certificateFile: '/tls/tls.crt',
      keyFile: '/tls/tls.key',
      caFile: '/tls/ca.crt',
      peerName: 'blockdelta-router',
    },
  });
  const named = parseConfig({
    CSI_ENDPOINT,
    ...FILES,
    BLOCKDELTA_LISTEN_ADDRESS: '[fd00::1]:9810',
    BLOCKDELTA_TLS_PEER_NAME: 'r.example',
  });
  assert.equal(named.listen?.tls.peerName, 'r.example');
  const { address } = named.listen;
  assert.deepEqual([address.host, formatHostPort(address)], ['fd00::1', '[fd00::1]:9810']);
});

test('transfers have ports beside a listener for routers, of IPv4, and may have a rate', () => {
  const ports = { BLOCKDELTA_TRANSFER_PORTS: '10900-10902' };
  const { transfers } = parseConfig({ CSI_ENDPOINT, ...ADDRESS, ...FILES, ...ports, BLOCKDELTA_TRANSFER_RATE: '20Mi' });
  assert.deepEqual(transfers, { ports: [10_900, 10_901, 10_902], host: '10.0.0.1', bytesPerSecond: 20n << 20n });
  const any = { BLOCKDELTA_LISTEN_ADDRESS: '[::]:9810', BLOCKDELTA_TRANSFER_PORTS: '65535' };
  assert.deepEqual(parseConfig({ CSI_ENDPOINT, ...FILES, ...any }).transfers, {
    ports: [65_535],
    host: '0.0.0.0',
    bytesPerSecond: null,
  });
  refuses(ports, /BLOCKDELTA_TRANSFER_PORTS is set and BLOCKDELTA_LISTEN_ADDRESS is not/);
  for (const value of ['', '1023', '80-90', '10900-10899', '10900-10964', '65536', '10900,10901', 'x']) {
    const env = { ...ADDRESS, ...FILES, BLOCKDELTA_TRANSFER_PORTS: value };
    if (value !== '') refuses(env, /BLOCKDELTA_TRANSFER_PORTS is '.*': it must be a port or two/, value);
  }
  refuses({ BLOCKDELTA_TRANSFER_RATE: 'fast' }, /BLOCKDELTA_TRANSFER_RATE/);
});

test('an incomplete set of TLS settings names what is missing', () => {
  for (const missing of Object.keys(FILES)) {
    const env: Record<string, string> = { ...ADDRESS, ...FILES };
    delete env[missing];
    refuses(env, new RegExp(`^${missing} is not set, but`));
  }
  refuses(ADDRESS, /CERTIFICATE and BLOCKDELTA_TLS_KEY and BLOCKDELTA_TLS_CA are not/);
  refuses(FILES, /BLOCKDELTA_TLS_CERTIFICATE is set and BLOCKDELTA_LISTEN_ADDRESS is not/);
});

test('addresses, paths and names that cannot be right are refused', () => {
  const wrong = ['10.0.0.1', '9808', ':9808', '::1:9808', 'fd00::1:9810', '[::1]', 'a:65536'];
  for (const address of [...wrong, '[x]:1', 'a b:1', 'a:-1']) {
    for (const name of ['BLOCKDELTA_METRICS_ADDRESS', 'BLOCKDELTA_LISTEN_ADDRESS']) {
      const found = new RegExp(`${name} is '.*': it must be host:port`);
      refuses({ ...FILES, ...ADDRESS, [name]: address }, found, address);
    }
  }
  refuses({ ...ADDRESS, ...FILES, BLOCKDELTA_TLS_KEY: 'key.pem' }, /TLS_KEY is 'key.pem'/);
  for (const name of ['*.example', 'a..b', '-a', 'a b']) {
    const env = { ...ADDRESS, ...FILES, BLOCKDELTA_TLS_PEER_NAME: name };
    refuses(env, /BLOCKDELTA_TLS_PEER_NAME/, name);
  }
});

const MISSPELT: readonly [string, string][] = [
  ['BLOCKDELTA_POOL', 'BLOCKDELTA_POOLS'],
  ['BLOCKDELTA_STATEDIR', 'BLOCKDELTA_STATE_DIR'],
  ['BLOCKDELTA_NODE_DI', 'BLOCKDELTA_NODE_ID'],
  ['blockdelta_pools', 'BLOCKDELTA_POOLS'],
  ['BLOCKDELTA_OVERCOMIT', 'BLOCKDELTA_OVERCOMMIT'],
];
test('a misspelt setting is refused, and the one that it resembles is named', () => {
  for (const [name, nearest] of MISSPELT) {
    refuses({ [name]: 'x' }, `${name} is not a setting: did you mean ${nearest}?`);
  }
});

test('a name that only resembles a setting is listed with it and refused nowhere', () => {
  const env = { CSI_ENDPOINT, BLOCKDELTA_STATE_DIRECTORY: '/x', BLOCKDELTA_EMPTY: '', OTHER: 'x' };
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
