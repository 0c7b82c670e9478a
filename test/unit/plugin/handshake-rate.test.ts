/** How many handshakes may begin on the TCP listener, and who is kept apart from whom. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HandshakeRate, sourceOf } from '../../../src/server/connections/handshake-rate.js';

const ROUTER = '192.0.2.1';

/** How many of so many attempts may begin. */
function begun(rate: HandshakeRate, now: number, count: number, address: (index: number) => string) {
  const attempts = Array.from({ length: count }, (_, index) => rate.refusal(address(index), now));
  return attempts.filter((refusal) => refusal === null).length;
}

const stranger = (index: number): string => `10.${index >> 16}.${(index >> 8) & 255}.${index & 255}`;

test('H31: a source begins a burst, then so many each second, and leaves the others alone', () => {
  const rate = new HandshakeRate();
  assert.equal(
    begun(rate, 0, 1000, () => '10.0.0.1'),
    32,
  );
  assert.equal(
    begun(rate, 1000, 1000, () => '10.0.0.1'),
    4,
  );
  assert.match(rate.refusal('10.0.0.1', 1000) ?? '', /^10\.0\.0\.1 began more than 32 .* 4 each/);
  assert.equal(rate.refusal('10.0.0.2', 1000), null);
  assert.equal(
    begun(rate, 3_600_000, 1000, () => '10.0.0.1'),
    32,
    'a pause fills one burst',
  );
});

test('H31: a flood from any number of sources takes nothing from those that are known', () => {
  const rate = new HandshakeRate();
  assert.equal(rate.refusal(ROUTER, 0), null);
  rate.proved(ROUTER);
  assert.equal(begun(rate, 0, 10_000, stranger), 63);
  for (let second = 1; second < 60; second += 1) {
    assert.equal(begun(rate, second * 1000, 10_000, stranger), 32);
    assert.equal(
      begun(rate, second * 1000, 2, () => ROUTER),
      2,
    );
  }
  assert.match(rate.refusal('10.0.0.1', 59_000) ?? '', /^all sources of unknown peers/);
  assert.equal(
    begun(rate, 60_000, 1000, () => ROUTER),
    32,
    'a known source has a limit as well',
  );
});

test('H31: the last 256 sources that were known are remembered', () => {
  const rate = new HandshakeRate();
  rate.proved(ROUTER);
  for (let index = 0; index < 255; index += 1) rate.proved(stranger(index));
  begun(rate, 0, 1000, (index) => stranger(10_000 + index));
  assert.equal(rate.refusal(ROUTER, 0), null);
  rate.proved(stranger(300));
  assert.match(rate.refusal(ROUTER, 0) ?? '', /unknown/);
});

test('H31: a source is an IPv4 address, or an IPv6 network of 64 bits', () => {
  const sources: Record<string, string> = {
    '192.0.2.1': '192.0.2.1',
    '::ffff:192.0.2.1': '192.0.2.1',
    '::1': '0:0:0:0::/64',
    '2001:db8::1': '2001:db8:0:0::/64',
    '2001:db8:0:1::': '2001:db8:0:1::/64',
    '2001:db8:0:1:2:3:4:5': '2001:db8:0:1::/64',
    '2001:db8::2:3:4:5:6': '2001:db8:0:2::/64',
    'fe80::1%eth0': 'fe80:0:0:0::/64',
  };
  for (const [address, source] of Object.entries(sources)) {
    assert.equal(sourceOf(address), source, address);
  }
});
