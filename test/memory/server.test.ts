/** The server on its socket, with fake services: taking the path, the gate, malformed requests, errors, the log, stopping. */
import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type * as grpc from '@grpc/grpc-js';
import { CsiError } from '../../src/base/errors.js';
import { eventually } from '../support/eventually.js';
import { encodeMessage, RawConnection } from '../support/raw-call.js';
import { refused, statusOf } from '../support/refusal.js';
import {
  defer,
  endless,
  LARGE,
  type LogLine,
  makeServer,
  metadataService,
  startServer,
  unaryService,
  untilCutOff,
} from '../support/server-fixture.js';
import { temporaryDirectory } from '../support/temporary.js';

test('a path that is not a socket is left alone, and its directory is not made', async (t) => {
  const directory = temporaryDirectory();
  const made = makeServer(directory);
  t.after(() => made.client.close());
  writeFileSync(made.socketPath, 'precious');
  await assert.rejects(made.server.start(), /exists and is not a socket/);
  assert.equal(readFileSync(made.socketPath, 'utf8'), 'precious');
  rmSync(made.socketPath);
  mkdirSync(made.socketPath);
  await assert.rejects(made.server.start(), /exists and is not a socket/);
  rmSync(made.socketPath, { recursive: true });
  symlinkSync('/nowhere', made.socketPath);
  await assert.rejects(made.server.start(), /exists and is not a socket/);
  const other = makeServer(join(directory, 'missing'));
  t.after(() => other.client.close());
  await assert.rejects(other.server.start(), /missing of the socket does not exist/);
  assert.throws(() => statSync(join(directory, 'missing')), /ENOENT/);
});

for (const [name, socketMode] of [
  ['0600', 0o600],
  ['0660', 0o660],
] as const) {
  test(`E16: the socket has mode ${name} whatever the umask, which stays as it was`, async (t) => {
    const umask = process.umask(0o002);
    t.after(() => process.umask(umask));
    const { socketPath } = await startServer(t, { socketMode });
    assert.equal(statSync(socketPath).mode & 0o7777, socketMode);
    assert.equal(process.umask(), 0o002);
  });
}

/** Encodes field 1, which is a name or an id in most requests. */
function field1(bytes: Buffer, length = bytes.length): Buffer {
  return Buffer.concat([Buffer.from([0x0a, length]), bytes]);
}

// CreateVolumeRequest.parameters is field 4; of an entry, the key is field 1 and the value 2.
const MALFORMED: readonly [string, Buffer, RegExp][] = [
  ['a byte that begins no character', field1(Buffer.from([0x61, 0xff, 0x62])), /UTF-8/],
  ['half a character at the end', field1(Buffer.from([0x61, 0xe2, 0x82])), /UTF-8/],
  ['an overlong slash', field1(Buffer.from([0xc0, 0xaf])), /UTF-8/],
  ['a surrogate', field1(Buffer.from([0xed, 0xa0, 0x80])), /UTF-8/],
  ['a key that is no text', Buffer.from([0x22, 6, 0x0a, 1, 0xff, 0x12, 1, 0x61]), /UTF-8/],
  ['a value that is no text', Buffer.from([0x22, 6, 0x0a, 1, 0x61, 0x12, 1, 0xff]), /UTF-8/],
  ['a string longer than the request', field1(Buffer.from('abc'), 9), /CreateVolumeRequest/],
  ['a length beyond 4 GiB', Buffer.from([0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f, 0x01]), /CreateVolumeRequest/],
  ['a number without an end', Buffer.from([0x80]), /CreateVolumeRequest/],
  ['groups in groups without end', Buffer.alloc(100_000, 0x7b), /CreateVolumeRequest/],
];

test('malformed requests are refused, logged like any call, and reach no handler', async (t) => {
  const names: unknown[] = [];
  const made = await startServer(t, {
    services: [
      unaryService('Controller', {
        CreateVolume: async ({ name }) => {
          names.push(name);
          return {};
        },
      }),
      metadataService(async () => undefined),
    ],
  });
  const connection = new RawConnection(made.endpoint);
  t.after(() => connection.close());
  const create = (bytes: Buffer) => connection.unary('/csi.v1.Controller/CreateVolume', bytes);
  for (const [what, bytes, message] of MALFORMED) {
    await refused(create(bytes), 'INVALID_ARGUMENT', message).catch((cause: unknown) => {
      throw new Error(what, { cause });
    });
  }
  const stream = { path: '/csi.v1.SnapshotMetadata/GetMetadataDelta', isStream: true };
  const broken = connection.call(stream, field1(Buffer.from([0xff])));
  await refused(broken, 'INVALID_ARGUMENT', /UTF-8/);
  const lines = made.log.filter((line) => line['msg'] === 'call failed');
  assert.equal(lines.length, MALFORMED.length + 1);
  const { method, code, error } = lines[0] as LogLine;
  assert.deepEqual([method, code], ['Controller.CreateVolume', 'INVALID_ARGUMENT']);
  assert.match(String(error), /UTF-8/);
  assert.deepEqual(names, []);
  // The caller's own replacement character.
  await create(encodeMessage('CreateVolumeRequest', { name: 'a\ufffdb' }));
  assert.deepEqual(names, ['a\ufffdb']);
  assert.equal((await connection.call(stream, Buffer.alloc(0))).length, 0);
  // A method that is not served is told of first.
  const other = { path: '/csi.v1.Node/NodeGetInfo', isStream: false };
  await refused(connection.call(other, field1(Buffer.from([0xff]))), 'UNIMPLEMENTED');
});

const getInfo = unaryService('Node', { NodeGetInfo: async () => ({ node_id: 'n' }) });

test('ID8: calls of services that are not open yet wait, and end with a stop', async (t) => {
  const [first, second] = [await startServer(t, { starting: true }), await startServer(t, { starting: true })];
  const waiting = [first.client.node.NodeGetInfo({}), first.client.node.NodeGetInfo({})];
  const lost = refused(first.client.allocated('s'), 'UNIMPLEMENTED', /SnapshotMetadata/);
  const stopped = refused(second.client.node.NodeGetInfo({}), 'UNAVAILABLE');
  for (const { client } of [first, second]) {
    // After half of that time the call is refused, if the answer comes early enough.
    const status = await statusOf(client.node.NodeGetInfo({}, { deadlineMs: 100 }));
    assert.match(status, /^(UNAVAILABLE|DEADLINE_EXCEEDED)$/);
  }
  first.server.open([getInfo]);
  for (const answer of await Promise.all(waiting)) assert.equal(answer['node_id'], 'n');
  await lost;
  assert.deepEqual(await second.server.stop(), { forced: false, unfinished: 0 });
  await stopped;
});

test('ID8: services that are not open after the time for a start are UNAVAILABLE', async (t) => {
  const identity = unaryService('Identity', { Probe: async () => ({ ready: null }) });
  const options = { services: [identity], starting: true, startTimeoutMs: 20 };
  const { server, client } = await startServer(t, options);
  await client.identity.Probe({});
  await refused(client.node.NodeGetInfo({}), 'UNAVAILABLE', /starting/);
  await refused(client.allocated('s'), 'UNAVAILABLE', /starting/);
  server.open([getInfo]);
  assert.equal((await client.node.NodeGetInfo({}))['node_id'], 'n');
  await refused(client.allocated('s'), 'UNIMPLEMENTED', /SnapshotMetadata/);
});

test('G2 and G3: the caller gets the code and the message, the log the cause as well', async (t) => {
  const secret = new Error('stack and path for engineers');
  const made = await startServer(t, {
    services: [
      unaryService('Controller', {
        DeleteVolume: async () => {
          const details = { snapshots: 3n };
          throw CsiError.failedPrecondition('volume v has snapshots', { cause: secret, details });
        },
        CreateVolume: () => Promise.reject(secret),
        ListVolumes: async () => ({ entries: 'not a list' }),
      }),
    ],
  });
  const { controller } = made.client;
  const failed = await controller.DeleteVolume({ volume_id: 'v' }).catch((error) => error);
  assert.equal(failed.code, 9);
  assert.equal(failed.details, 'volume v has snapshots');
  assert.deepEqual(
    Object.keys(failed.metadata.getMap()).filter((key) => /details/.test(key)),
    [],
  );
  await refused(controller.CreateVolume({ name: 'n' }), 'INTERNAL', /the plugin log names/);
  await refused(controller.ListVolumes({}), 'INTERNAL', /the plugin log names/);
  const ended = made.log.filter((line) => line['msg'] === 'call failed');
  const [deleted, created, listed] = ended as [LogLine, LogLine, LogLine];
  assert.equal(ended.length, 3);
  assert.equal(deleted['level'], 'warn');
  assert.equal(deleted['code'], 'FAILED_PRECONDITION');
  assert.equal(deleted['cause'], secret.message);
  assert.deepEqual(deleted['details'], { snapshots: '3' });
  assert.equal(created['level'], 'error');
  assert.match((created['err'] as { stack: string }).stack, /for engineers.*\n +at /);
  assert.equal(listed['level'], 'error');
});

test('each call is logged in one line with its objects, code and duration', async (t) => {
  const publish = unaryService('Node', {
    NodePublishVolume: async (_request, context) => {
      context.note({ bytes: 2n ** 60n, mounted: true });
      return {};
    },
  });
  const made = await startServer(t, { services: [publish] });
  const asked = { volume_id: 'vol-1', target_path: '/target', staging_target_path: '/staging' };
  await made.client.node.NodePublishVolume(asked);
  const lines = made.log.filter((line) => line['level'] === 'info');
  assert.equal(lines.length, 1);
  const { op, ms, time, ...rest } = lines[0] as LogLine;
  assert.match(op as string, /^[0-9a-f]{12}$/);
  assert.ok((ms as number) >= 0);
  assert.ok(!Number.isNaN(Date.parse(time as string)));
  assert.deepEqual(rest, {
    level: 'info',
    method: 'Node.NodePublishVolume',
    ...asked,
    bytes: '1152921504606846976',
    mounted: true,
    code: 'OK',
    msg: 'call ended',
  });
});

/** A controller whose DeleteVolume ends on request, or when it is cancelled if `obeys`. */
function slowController(obeys: boolean) {
  const started = defer();
  const release = defer();
  const service = unaryService('Controller', {
    DeleteVolume: async (_request, given) => {
      started.resolve();
      const cutOff = new Promise<never>((_, reject) => {
        if (obeys) void untilCutOff(given).then(reject);
      });
      await Promise.race([release.promise, cutOff]);
      return {};
    },
  });
  return { service, started, release };
}

test('a stop waits for calls in flight and refuses new ones', async (t) => {
  const slow = slowController(true);
  const made = await startServer(t, { services: [slow.service] });
  const call = made.client.controller.DeleteVolume({});
  await slow.started.promise;
  const stopped = made.server.stop();
  await eventually('the socket is gone', () => !readdirSync(made.directory).includes('csi.sock'));
  await refused(made.client.identity.Probe({}, { deadlineMs: 60_000 }), 'UNAVAILABLE');
  slow.release.resolve();
  assert.deepEqual(await call, {});
  assert.deepEqual(await stopped, { forced: false, unfinished: 0 });
});

for (const obeys of [true, false]) {
  test(`a stop aborts a call that ${obeys ? 'ends' : 'goes on'} after the grace time`, async (t) => {
    const slow = slowController(obeys);
    const made = await startServer(t, { services: [slow.service], graceMs: 100 });
    const call = made.client.controller.DeleteVolume({});
    const failed = obeys ? refused(call, 'UNAVAILABLE', /stopping/) : assert.rejects(call);
    await slow.started.promise;
    assert.deepEqual(await made.server.stop(), { forced: true, unfinished: obeys ? 0 : 1 });
    await failed;
    slow.release.resolve();
  });
}

test('a stop with a paused stream ends after the grace period and releases the handler', async (t) => {
  const sender = endless(LARGE);
  const service = metadataService((_request, _context, writer) => sender.send(writer));
  const made = await startServer(t, { services: [service], graceMs: 100 });
  const call = made.client.open('GetMetadataAllocated', { snapshot_id: 's' });
  const failed = new Promise<grpc.ServiceError>((resolve) => call.once('error', resolve));
  call.once('data', () => call.pause());
  await new Promise((resolve) => call.once('pause', resolve));
  const stopped = await made.server.stop();
  assert.deepEqual(stopped, { forced: true, unfinished: 0 });
  assert.match(String(await sender.ended), /stopping/);
  call.resume();
  assert.ok([1, 13, 14].includes((await failed).code), 'not OK');
});

test('a second signal immediately cancels what the first one waits for', async (t) => {
  const slow = slowController(true);
  // Without the second signal, longer than any test.
  const made = await startServer(t, { services: [slow.service], graceMs: 2 ** 31 - 1 });
  const failed = assert.rejects(made.client.controller.DeleteVolume({}));
  await slow.started.promise;
  const stopped = made.server.stop();
  made.server.force();
  assert.deepEqual(await stopped, { forced: true, unfinished: 0 });
  await failed;
});
