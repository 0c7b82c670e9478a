/** Requests whose bytes do not decode: refused with a CSI status, and logged like any call. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { DecodedMessage } from '../../src/csi/request-decoder.js';
import { allRpcs, encodeMessage, RawConnection } from '../support/raw-call.js';
import { refused } from '../support/refusal.js';
import { fakeService, startServer, type TestServer } from './server-fixture.js';

interface Probed extends TestServer {
  connection: RawConnection;
  /** Requests that reached a handler. */
  handled: DecodedMessage[];
}

async function start(t: TestContext): Promise<Probed> {
  const handled: DecodedMessage[] = [];
  const unary = Object.fromEntries(
    allRpcs()
      .filter(({ service, isStream }) => service === 'Controller' && !isStream)
      .map(({ name }) => [
        name,
        async (request: DecodedMessage) => {
          handled.push(request);
          return {};
        },
      ]),
  );
  const made = await startServer(t, { services: [fakeService('Controller', { unary })] });
  const connection = new RawConnection(made.endpoint);
  t.after(() => connection.close());
  return Object.assign(made, { connection, handled });
}

const CREATE = '/csi.v1.Controller/CreateVolume';

/** Encodes field 1, which is a name or an id in most requests. */
function field1(bytes: Buffer, length = bytes.length): Buffer {
  return Buffer.concat([Buffer.from([0x0a, length]), bytes]);
}

const NOT_UTF8: Readonly<Record<string, Buffer>> = {
  'a byte that begins nothing': Buffer.from([0x61, 0xff, 0x62]),
  'half a character at the end': Buffer.from([0x61, 0xe2, 0x82]),
  'an overlong slash': Buffer.from([0xc0, 0xaf]),
  'a surrogate': Buffer.from([0xed, 0xa0, 0x80]),
};

for (const [what, bytes] of Object.entries(NOT_UTF8)) {
  test(`text that is not UTF-8 (${what}) is refused and reaches no handler`, async (t) => {
    const { connection, handled } = await start(t);
    await refused(connection.unary(CREATE, field1(bytes)), 'INVALID_ARGUMENT', /UTF-8/);
    assert.deepEqual(handled, []);
  });
}

test('keys and values of a map that are not UTF-8 are refused', async (t) => {
  const { connection, handled } = await start(t);
  // CreateVolumeRequest.parameters is field 4; of an entry, the key is field 1 and the value 2.
  const key = Buffer.from([0x22, 6, 0x0a, 1, 0xff, 0x12, 1, 0x61]);
  const value = Buffer.from([0x22, 6, 0x0a, 1, 0x61, 0x12, 1, 0xff]);
  await refused(connection.unary(CREATE, key), 'INVALID_ARGUMENT', /UTF-8/);
  await refused(connection.unary(CREATE, value), 'INVALID_ARGUMENT', /UTF-8/);
  assert.deepEqual(handled, []);
});

test('a replacement character sent by the caller is accepted', async (t) => {
  const { connection, handled } = await start(t);
  await connection.unary(CREATE, encodeMessage('CreateVolumeRequest', { name: 'a\ufffdb' }));
  assert.equal(handled[0]?.['name'], 'a\ufffdb');
});

const CUT_OFF: Readonly<Record<string, Buffer>> = {
  'a string longer than the request': field1(Buffer.from('abc'), 9),
  'a length beyond 4 GiB': Buffer.from([0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f, 0x01]),
  'a number without an end': Buffer.from([0x80]),
  'groups in groups without end': Buffer.alloc(100_000, 0x7b),
};

for (const [what, bytes] of Object.entries(CUT_OFF)) {
  test(`${what} is refused and reaches no handler`, async (t) => {
    const { connection, handled } = await start(t);
    await refused(connection.unary(CREATE, bytes), 'INVALID_ARGUMENT', /CreateVolumeRequest/);
    assert.deepEqual(handled, []);
  });
}

test('a malformed request is logged with method, code and reason', async (t) => {
  const made = await start(t);
  await refused(made.connection.unary(CREATE, field1(Buffer.from([0xff]))), 'INVALID_ARGUMENT');
  const lines = made.log.filter((line) => line['msg'] === 'call failed');
  assert.equal(lines.length, 1);
  assert.equal(lines[0]?.['method'], 'Controller.CreateVolume');
  assert.equal(lines[0]?.['code'], 'INVALID_ARGUMENT');
  assert.match(String(lines[0]?.['error']), /UTF-8/);
});

test('an RPC that is not served is UNIMPLEMENTED, whatever bytes come with it', async (t) => {
  const { connection } = await start(t);
  const broken = field1(Buffer.from([0xff]));
  await refused(connection.unary('/csi.v1.Node/NodeGetInfo', broken), 'UNIMPLEMENTED');
  const stream = { path: '/csi.v1.SnapshotMetadata/GetMetadataDelta', isStream: true };
  await refused(connection.call(stream, broken), 'UNIMPLEMENTED');
});

test('a malformed request of a stream is refused in the same way', async (t) => {
  const made = await startServer(t, {
    services: [
      fakeService('SnapshotMetadata', { streams: { GetMetadataDelta: async () => undefined } }),
    ],
  });
  const connection = new RawConnection(made.endpoint);
  t.after(() => connection.close());
  const stream = { path: '/csi.v1.SnapshotMetadata/GetMetadataDelta', isStream: true };
  const broken = field1(Buffer.from([0xff]));
  await refused(connection.call(stream, broken), 'INVALID_ARGUMENT', /UTF-8/);
  assert.equal((await connection.call(stream, Buffer.alloc(0))).length, 0);
});
