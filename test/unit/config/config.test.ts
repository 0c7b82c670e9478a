import assert from 'node:assert/strict';
import { hostname } from 'node:os';
import { test } from 'node:test';
import { ConfigError, parseConfig, SETTINGS } from '../../../src/config/config.js';

const CSI_ENDPOINT = 'unix:///run/blockdelta/csi.sock';

test('E6 and E15: the endpoint alone is enough: everything else has a default', () => {
  assert.deepEqual(parseConfig({ CSI_ENDPOINT }), {
    endpoint: CSI_ENDPOINT,
    socketPath: '/run/blockdelta/csi.sock',
    listen: null,
    socketMode: 0o600,
    nodeId: hostname(),
    driverName: 'blockdelta.csi',
    stateDirectory: '/var/lib/blockdelta',
    pools: [{ kind: 'reflink', name: 'default', directory: '/var/lib/blockdelta/pools/default' }],
    embeddedPoolBytes: null,
    embeddedPoolAllocation: 'full',
    changeLists: true,
    thin: {
      dataBlockBytes: 64n << 10n,
      passDiscards: true,
      errorWhenFull: true,
      lowWaterPercent: 10n,
    },
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
  });
});

test('the address of the metrics is host:port, with an IPv6 address in brackets', () => {
  const parse = (address: string) =>
    parseConfig({ CSI_ENDPOINT, BLOCKDELTA_METRICS_ADDRESS: address }).metricsAddress;
  assert.deepEqual(parse('127.0.0.1:9808'), { host: '127.0.0.1', port: 9808 });
  assert.deepEqual(parse('[::1]:0'), { host: '::1', port: 0 });
  assert.deepEqual(parse('localhost:80'), { host: 'localhost', port: 80 });
  for (const wrong of ['9808', ':9808', '::1:9808', '[::1]', 'a:65536', '[x]:1', 'a b:1', 'a:-1']) {
    assert.throws(
      () => parse(wrong),
      /BLOCKDELTA_METRICS_ADDRESS is '.*': it must be host:port/,
      wrong,
    );
  }
});

const LIMIT_SETTINGS = {
  BLOCKDELTA_MAX_CONNECTIONS: '64',
  BLOCKDELTA_MAX_CALLS: '500',
  BLOCKDELTA_MAX_STREAMS: '16',
  BLOCKDELTA_STREAM_STALL_SECONDS: '30',
  BLOCKDELTA_SCAN_THREADS: '64',
  BLOCKDELTA_DEVICE_THREADS: '1',
};
const LIMITS = {
  maxConnections: 64,
  maxCalls: 500,
  maxStreams: 16,
  streamStallMs: 30_000,
  scanThreads: 64,
  deviceThreads: 1,
};

test('every setting can be given', () => {
  const config = parseConfig({
    CSI_ENDPOINT: 'unix:///csi/a.sock',
    BLOCKDELTA_SOCKET_MODE: '660',
    BLOCKDELTA_NODE_ID: 'node-1',
    BLOCKDELTA_DRIVER_NAME: 'other.example',
    BLOCKDELTA_STATE_DIR: '/state//here/',
    BLOCKDELTA_POOLS: 'fast=/mnt/a,slow-2=/mnt/b/',
    BLOCKDELTA_EMBEDDED_POOL_SIZE: '20Gi',
    BLOCKDELTA_EMBEDDED_POOL_ALLOCATE: 'sparse',
    BLOCKDELTA_CHANGE_LISTS: 'off',
    BLOCKDELTA_THIN_BLOCK_SIZE: '512Ki',
    BLOCKDELTA_THIN_DISCARDS: 'keep',
    BLOCKDELTA_THIN_WHEN_FULL: 'queue',
    BLOCKDELTA_THIN_LOW_WATER_PERCENT: '5',
    BLOCKDELTA_OVERCOMMIT: '2.5',
    BLOCKDELTA_RESERVE_PERCENT: '0',
    BLOCKDELTA_RETAINED_BASES_COUNT: '0',
    BLOCKDELTA_RETAINED_BASES_AGE: '12h',
    BLOCKDELTA_RETAINED_BASES_SIZE: '256Mi',
    BLOCKDELTA_CSI_LEVEL: '1.13',
    BLOCKDELTA_LEGACY_CSI: '0.3, 0.1',
    BLOCKDELTA_LEGACY_STAGING_DIR: '/state/beside/',
    BLOCKDELTA_CONTROLLER_PUBLISH: 'on',
    BLOCKDELTA_MAX_VOLUMES_PER_NODE: '110',
    BLOCKDELTA_TOPOLOGY_KEY: 'example.org/host',
    BLOCKDELTA_CGROUP_ROOT: '/run/cgroup',
    BLOCKDELTA_MOUNT_PROPAGATION: 'required',
    BLOCKDELTA_LOG_LEVEL: 'debug',
    BLOCKDELTA_METRICS_ADDRESS: '127.0.0.1:9808',
    BLOCKDELTA_METRICS_VOLUMES: 'off',
    BLOCKDELTA_SHUTDOWN_GRACE_SECONDS: '0',
    ...LIMIT_SETTINGS,
  });
  assert.deepEqual(config, {
    endpoint: 'unix:///csi/a.sock',
    socketPath: '/csi/a.sock',
    listen: null,
    socketMode: 0o660,
    nodeId: 'node-1',
    driverName: 'other.example',
    stateDirectory: '/state/here',
    pools: [
      { kind: 'reflink', name: 'fast', directory: '/mnt/a' },
      { kind: 'reflink', name: 'slow-2', directory: '/mnt/b' },
    ],
    embeddedPoolBytes: 20n << 30n,
    embeddedPoolAllocation: 'sparse',
    changeLists: false,
    thin: {
      dataBlockBytes: 512n << 10n,
      passDiscards: false,
      errorWhenFull: false,
      lowWaterPercent: 5n,
    },
    overcommitPercent: 250n,
    reservePercent: 0n,
    retainedBasesPerVolume: 0,
    retainedBasesAgeMs: 12 * 3_600_000,
    retainedBasesPoolBytes: 256n << 20n,
    csiLevel: '1.13',
    legacyVersions: ['0.3', '0.1'],
    legacyStagingDirectory: '/state/beside',
    controllerPublish: true,
    maxVolumesPerNode: 110,
    topologyKey: 'example.org/host',
    cgroupRoot: '/run/cgroup',
    mountPropagation: 'required',
    logLevel: 'debug',
    metricsAddress: { host: '127.0.0.1', port: 9808 },
    metricsOfVolumes: false,
    shutdownGraceMs: 0,
    ...LIMITS,
  });
});

test('a thin pool lies on files in its directory, or on two devices in any order', () => {
  const { pools } = parseConfig({
    CSI_ENDPOINT,
    BLOCKDELTA_POOLS:
      'own=thin:/mnt/a/,given=thin:/mnt/b;data=/dev/disk/by-id/x=1;metadata=/dev/vg/meta',
  });
  const devices = { metadata: '/dev/vg/meta', data: '/dev/disk/by-id/x=1' };
  assert.deepEqual(pools, [
    { kind: 'thin', name: 'own', directory: '/mnt/a', devices: null },
    { kind: 'thin', name: 'given', directory: '/mnt/b', devices },
  ]);
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

const WRONG: readonly [name: string, value: string, found: RegExp][] = [
  ['CSI_ENDPOINT', '', /not set/],
  ['CSI_ENDPOINT', '/run/csi.sock', /only unix:\/\//],
  ['CSI_ENDPOINT', 'tcp://0.0.0.0:1', /only unix:\/\//],
  ['CSI_ENDPOINT', 'unix:/run/csi.sock', /only unix:\/\//],
  ['CSI_ENDPOINT', 'unix://run/csi.sock', /absolute/],
  ['CSI_ENDPOINT', 'unix:///run/../csi.sock', /normalized/],
  ['CSI_ENDPOINT', 'unix:///run//csi.sock', /normalized/],
  ['CSI_ENDPOINT', 'unix:///run/csi', /end in \.sock/],
  ['CSI_ENDPOINT', `unix:///${'d'.repeat(102)}.sock`, /108 bytes long; the kernel accepts 107/],
  ['BLOCKDELTA_SOCKET_MODE', '888', /octal/],
  ['BLOCKDELTA_SOCKET_MODE', '4755', /octal/],
  ['BLOCKDELTA_NODE_ID', 'a b', /printable/],
  ['BLOCKDELTA_NODE_ID', 'n'.repeat(129), /128/],
  ['BLOCKDELTA_DRIVER_NAME', '1st.example', /letter first and last/],
  ['BLOCKDELTA_DRIVER_NAME', 'a'.repeat(64), /63/],
  ['BLOCKDELTA_DRIVER_NAME', 'under_score', /domain name/],
  ['BLOCKDELTA_STATE_DIR', 'relative', /absolute/],
  ['BLOCKDELTA_STATE_DIR', '/', /root directory/],
  ['BLOCKDELTA_POOLS', 'nodirectory', /name=\/directory/],
  ['BLOCKDELTA_POOLS', 'Upper=/a', /lower-case/],
  ['BLOCKDELTA_POOLS', 'a=/a,', /name=\/directory/],
  ['BLOCKDELTA_POOLS', 'a=relative', /absolute/],
  ['BLOCKDELTA_POOLS', 'a=/a,a=/b', /'a' is given twice/],
  ['BLOCKDELTA_POOLS', 'a=/a,b=/a/', /'\/a' is given twice/],
  ['BLOCKDELTA_POOLS', 'a=thin:relative', /absolute/],
  ['BLOCKDELTA_POOLS', 'a=thin:/a;metadata=/dev/x', /both of its devices or none/],
  ['BLOCKDELTA_POOLS', 'a=thin:/a;metadata=/dev/x;data=', /absolute/],
  ['BLOCKDELTA_POOLS', 'a=thin:/a;metadata=/dev/x;data=/dev/y;data=/dev/z', /both of its/],
  ['BLOCKDELTA_POOLS', 'a=thin:/a;metadata=/dev/x;data=/dev/x', /'\/dev\/x' is given twice/],
  ['BLOCKDELTA_THIN_BLOCK_SIZE', '4Ki', /multiple of 64Ki/],
  ['BLOCKDELTA_THIN_BLOCK_SIZE', '100Ki', /multiple of 64Ki/],
  ['BLOCKDELTA_THIN_BLOCK_SIZE', '2Gi', /64Ki to 1Gi/],
  ['BLOCKDELTA_THIN_DISCARDS', 'on', /passdown, keep/],
  ['BLOCKDELTA_THIN_WHEN_FULL', 'wait', /error, queue/],
  ['BLOCKDELTA_THIN_LOW_WATER_PERCENT', '0', /from 1 to 50/],
  ['BLOCKDELTA_CHANGE_LISTS', 'maybe', /on/],
  ['BLOCKDELTA_EMBEDDED_POOL_ALLOCATE', 'none', /full/],
  ['BLOCKDELTA_EMBEDDED_POOL_SIZE', '20GB', /Ki, Mi, Gi or Ti/],
  ['BLOCKDELTA_EMBEDDED_POOL_SIZE', '0', /Ki, Mi, Gi or Ti/],
  ['BLOCKDELTA_EMBEDDED_POOL_SIZE', '-1', /Ki, Mi, Gi or Ti/],
  ['BLOCKDELTA_EMBEDDED_POOL_SIZE', '536870911', /at least 512Mi/],
  ['BLOCKDELTA_EMBEDDED_POOL_SIZE', '511Mi', /at least 512Mi/],
  ['BLOCKDELTA_OVERCOMMIT', '0.99', /1 to 100/],
  ['BLOCKDELTA_OVERCOMMIT', '100.01', /1 to 100/],
  ['BLOCKDELTA_OVERCOMMIT', '1.234', /1 to 100/],
  ['BLOCKDELTA_OVERCOMMIT', 'much', /1 to 100/],
  ['BLOCKDELTA_RESERVE_PERCENT', '51', /0 to 50/],
  ['BLOCKDELTA_RETAINED_BASES_COUNT', '10001', /0 to 10000/],
  ['BLOCKDELTA_RETAINED_BASES_AGE', '0d', /hours or days/],
  ['BLOCKDELTA_RETAINED_BASES_AGE', '3651d', /ten years/],
  ['BLOCKDELTA_RETAINED_BASES_AGE', '30', /such as 12h or 30d/],
  ['BLOCKDELTA_RETAINED_BASES_SIZE', '1G', /Ki, Mi, Gi or Ti/],
  ['BLOCKDELTA_CSI_LEVEL', '1.9', /1\.10, 1\.11, 1\.12, 1\.13/],
  ['BLOCKDELTA_LEGACY_CSI', '0.2', /one of 0\.3, 0\.1/],
  ['BLOCKDELTA_LEGACY_CSI', '0.3,0.3', /0\.3 is there twice/],
  ['BLOCKDELTA_LEGACY_CSI', '0.3,', /one of 0\.3, 0\.1/],
  ['BLOCKDELTA_LEGACY_STAGING_DIR', 'staging', /absolute/],
  ['BLOCKDELTA_CONTROLLER_PUBLISH', 'true', /on, off/],
  ['BLOCKDELTA_MAX_VOLUMES_PER_NODE', '-1', /whole number/],
  ['BLOCKDELTA_TOPOLOGY_KEY', 'Upper.example/node', /like blockdelta.csi\/node/],
  ['BLOCKDELTA_TOPOLOGY_KEY', 'example.org/', /like blockdelta.csi\/node/],
  ['BLOCKDELTA_TOPOLOGY_KEY', `${'a'.repeat(64)}/node`, /63/],
  ['BLOCKDELTA_CGROUP_ROOT', 'sys', /absolute/],
  ['BLOCKDELTA_MOUNT_PROPAGATION', 'on', /auto.*required.*off/],
  ['BLOCKDELTA_LOG_LEVEL', 'verbose', /one of trace/],
  ['BLOCKDELTA_SHUTDOWN_GRACE_SECONDS', '1.5', /whole number/],
  ['BLOCKDELTA_SHUTDOWN_GRACE_SECONDS', '3601', /0 to 3600/],
  ['BLOCKDELTA_SCAN_THREADS', '0', /1 to 64/],
  ['BLOCKDELTA_DEVICE_THREADS', '65', /1 to 64/],
];

for (const [name, value, found] of WRONG) {
  test(`${name}='${value.slice(0, 30)}' is refused by name`, () => {
    assert.throws(
      () => parseConfig({ CSI_ENDPOINT, [name]: value }),
      (error) =>
        error instanceof ConfigError && error.message.includes(name) && found.test(error.message),
    );
  });
}

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

test('overcommitment is stored in percent, and both ends of its range are accepted', () => {
  const percent = (value: string) =>
    parseConfig({ CSI_ENDPOINT, BLOCKDELTA_OVERCOMMIT: value }).overcommitPercent;
  assert.deepEqual(['1', '1.5', '1.05', '100'].map(percent), [100n, 150n, 105n, 10_000n]);
});

test('the topology key follows the name of the driver, in lower case, and may go without a prefix', () => {
  const named = parseConfig({ CSI_ENDPOINT, BLOCKDELTA_DRIVER_NAME: 'Disks.Example' });
  assert.equal(named.topologyKey, 'disks.example/node');
  const plain = parseConfig({ CSI_ENDPOINT, BLOCKDELTA_TOPOLOGY_KEY: 'node' });
  assert.equal(plain.topologyKey, 'node');
});

test('the smallest bound of an embedded pool is taken', () => {
  const found = parseConfig({ CSI_ENDPOINT, BLOCKDELTA_EMBEDDED_POOL_SIZE: '512Mi' });
  assert.equal(found.embeddedPoolBytes, 512n << 20n);
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
  assert.deepEqual(
    parseConfig({ ...Object.fromEntries(defaults), CSI_ENDPOINT }),
    parseConfig({ CSI_ENDPOINT }),
  );
});
