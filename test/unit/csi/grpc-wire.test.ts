import assert from 'node:assert/strict';
import { test } from 'node:test';
import { framed, MessageSplitter, requestHeaders, statusIn } from '../../../src/base/csi/grpc-wire.js';
import { parseNodeList } from '../../../src/router/node-list.js';

test('messages are found whatever the pieces are in which they arrive', () => {
  const messages = [Buffer.from('one'), Buffer.alloc(0), Buffer.alloc(70_000, 7), Buffer.from('x')];
  const bytes = Buffer.concat(messages.map(framed));
  for (const size of [1, 2, 3, 4, 5, 6, 7, 100, 16_384, bytes.length]) {
    const splitter = new MessageSplitter(1 << 20);
    const found: Buffer[] = [];
    for (let offset = 0; offset < bytes.length; offset += size) {
      const complete = splitter.push(bytes.subarray(offset, offset + size));
      found.push(...complete.map((message) => message.toBuffer()));
    }
    assert.deepEqual(found, messages, `pieces of ${size}`);
    assert.equal(splitter.isInside, false);
  }
});

test('a compressed message and one that is too long are refused', () => {
  const compressed = framed(Buffer.from('x'));
  compressed[0] = 1;
  assert.throws(() => new MessageSplitter(10).push(compressed), /compressed or over 10 bytes/);
  assert.throws(() => new MessageSplitter(10).push(framed(Buffer.alloc(11))), /over 10 bytes/);
});

test('a deadline becomes a timeout of at most eight digits', (t) => {
  t.mock.method(Date, 'now', () => 1_000_000);
  const timeout = (ms: number): string => String(requestHeaders('/s/m', Date.now() + ms, {})['grpc-timeout']);
  assert.equal(timeout(1500), '1500m');
  assert.equal(timeout(-5), '1m');
  assert.equal(timeout(1e9), '1000000S');
  assert.equal(requestHeaders('/s/m', Number.POSITIVE_INFINITY, {})['grpc-timeout'], undefined);
});

test('code and message of a status are kept', () => {
  assert.equal(statusIn({ 'grpc-status': '0' }), null);
  assert.equal(statusIn({}), undefined);
  const error = statusIn({ 'grpc-status': '9', 'grpc-message': 'pool %22a%22 is 100%25 full: %C3%A4#' });
  assert.equal(error?.code, 9);
  assert.equal(error?.message, 'pool "a" is 100% full: ä#');
  assert.equal(statusIn({ 'grpc-status': '5', 'grpc-message': '50% off' })?.message, '50% off');
});

test('a list of nodes is refused with the place of the mistake', () => {
  assert.deepEqual(parseNodeList('{"nodes":[{"id":"a","address":"[fd00::1]:1"}]}'), [
    { id: 'a', address: '[fd00::1]:1' },
  ]);
  assert.deepEqual(parseNodeList('{"nodes":[]}'), []);
  for (const [text, problem] of [
    ['{', /JSON|property/],
    ['[]', /list "nodes"/],
    ['{"nodes":[1]}', /nodes\[0\] is not an object/],
    ['{"nodes":[{"id":"a"}]}', /nodes\[0\].address is not a string/],
    ['{"nodes":[{"id":"a b","address":"h:1"}]}', /'a b'/],
    ['{"nodes":[{"id":"a","address":"h:0"}]}', /no port/],
    ['{"nodes":[{"id":"a","address":"h:1"},{"id":"a","address":"h:2"}]}', /'a' is listed twice/],
  ] as const) {
    assert.throws(() => parseNodeList(text), problem, text);
  }
});
