import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { CsiError, errorCode, insteadOf, StatusCode, SystemError } from '../../../src/base/errors.js';
import { statusOf } from '../../../src/server/calls/call-status.js';

test('a CsiError is passed on as it is', () => {
  const error = CsiError.notFound('volume v does not exist');
  assert.equal(CsiError.from(error), error);
});

test('only the failures that are named are answered with a value', async () => {
  const failing = async (code?: string): Promise<string> => {
    throw Object.assign(new Error('it fails'), { code });
  };
  assert.equal(await failing('ENOENT').catch(insteadOf(['EIO', 'ENOENT'], 'nothing')), 'nothing');
  for (const code of ['ENOTDIR', '', undefined]) {
    await assert.rejects(failing(code).catch(insteadOf(['ENOENT'], null)), /it fails/);
  }
});

test('errors that Node.js has no name for have that of Linux', () => {
  const nameless = (errno: number): Error =>
    Object.assign(new Error('scandir'), { errno, code: `Unknown system error ${errno}` });
  assert.equal(errorCode(nameless(-116)), 'ESTALE');
  assert.equal(errorCode(nameless(-117)), 'EUCLEAN');
  assert.equal(errorCode(Object.assign(new Error(), { errno: -2, code: 'ENOENT' })), 'ENOENT');
  assert.equal(errorCode(Object.assign(new Error(), { code: 'ETIMEDOUT' })), 'ETIMEDOUT');
  for (const other of [null, 'EIO', new Error('EIO'), { errno: -116 }]) {
    assert.equal(errorCode(other), undefined);
  }
});

const ERRNOS: readonly [StatusCode, string][] = [
  [StatusCode.RESOURCE_EXHAUSTED, 'ENOSPC EDQUOT'],
  [StatusCode.OUT_OF_RANGE, 'EFBIG'],
  [StatusCode.FAILED_PRECONDITION, 'EBUSY EROFS EPERM EACCES SCAN_REPLACED SCAN_MUTABLE'],
  [StatusCode.FAILED_PRECONDITION, 'SCAN_UNSUPPORTED SCAN_MAP_INVALID'],
  [StatusCode.FAILED_PRECONDITION, 'THIN_METADATA_INVALID THIN_POOL_MODE'],
  [StatusCode.ABORTED, 'ESTALE SCAN_BUSY'],
  [StatusCode.INTERNAL, 'ENOENT EEXIST EIO constructor'],
];

test('an errno of a system call has one meaning everywhere', () => {
  for (const [code, errnos] of ERRNOS) {
    for (const errno of errnos.split(' ')) {
      const thrown = new SystemError(errno, 'ioctl', '/dev/loop0', `${errno} on /dev/loop0`);
      const error = CsiError.from(thrown);
      assert.deepEqual([error.code, error.cause], [code, thrown], errno);
    }
  }
});

test('a failed call names the path by which its object is known', () => {
  const call = new SystemError('EROFS', 'openat', '/proc/self/fd/7/v', (path) => `openat ${path}: it is read-only`);
  const named = call.at('/pool/v');
  const { code, syscall, path, message, cause } = named;
  assert.deepEqual({ code, syscall, path }, { code: 'EROFS', syscall: 'openat', path: '/pool/v' });
  assert.deepEqual([message, cause], ['openat /pool/v: it is read-only', call]);
  assert.equal(named.at('/other/v').message, 'openat /other/v: it is read-only');
  assert.equal(new SystemError('EBUSY', 'flock', '/a', 'in use').at('/b').message, 'in use');
});

test('an aborted wait is CANCELLED', async () => {
  const thrown = await delay(1000, undefined, { signal: AbortSignal.abort() }).catch((error: unknown) => error);
  assert.equal(CsiError.from(thrown).code, StatusCode.CANCELLED);
});

const ODD: readonly unknown[] = [
  undefined,
  null,
  'boom',
  7,
  Symbol('boom'),
  () => undefined,
  Object.create(null),
  ...[5, ''].map((code) => Object.assign(new Error('boom'), { code })),
];

test('whatever else was thrown is INTERNAL, without a word of it in the message', () => {
  for (const thrown of ODD) {
    const { code, message, cause } = CsiError.from(thrown);
    assert.deepEqual([code, cause], [StatusCode.INTERNAL, thrown]);
    assert.equal(message, 'internal error; the plugin log names the cause');
  }
});

test('a status has a known code, a message that is not empty, and nothing else', () => {
  const error = CsiError.aborted('busy', { cause: new Error('why'), details: { path: '/secret' } });
  assert.deepEqual(statusOf(error), { code: StatusCode.ABORTED, details: 'busy' });
  for (const message of ['', ' \n']) {
    assert.notEqual(statusOf(CsiError.notFound(message)).details.trim(), '');
  }
  for (const code of [0, 17, -1, Number.NaN]) {
    assert.equal(statusOf(new CsiError(code as StatusCode, 'x')).code, StatusCode.INTERNAL);
  }
});

test('a status message fits the headers of every client, percent-encoded', () => {
  for (const piece of ['a', '%', '\n', 'é', '漢', '🦆']) {
    const { details } = statusOf(CsiError.notFound(`x${piece.repeat(100_000)}`));
    const encoded = encodeURI(details).length;
    assert.ok(encoded <= 4096 && encoded > 4000, `${piece}: ${encoded}`);
    assert.ok(details.endsWith('...'));
  }
  assert.equal(statusOf(CsiError.notFound('a'.repeat(4096))).details, 'a'.repeat(4096));
});

test('a status message with half a character can be encoded', () => {
  const { details } = statusOf(CsiError.notFound('volume \ud800 is unknown'));
  assert.equal(details, 'volume \ufffd is unknown');
  assert.doesNotThrow(() => encodeURI(details));
});
