import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decodeToken, encodeToken, pageScope } from '../../../src/base/csi/pagination.js';
import { StatusCode } from '../../../src/base/errors.js';

const UUID = '5f0c9be2-70f4-4d6a-9a3b-0d2f6c1e8a47';
const SCOPE = pageScope('ListVolumes');

function aborts(call: () => unknown, message: RegExp): void {
  assert.throws(call, { code: StatusCode.ABORTED, message });
}

test('a token gives back the id it was made of, and the empty one begins at the first entry', () => {
  for (const id of ['a', `vol-0123456789ab-${UUID}`, 'ü😀', 'a\0b', ' ']) {
    assert.equal(decodeToken(SCOPE, encodeToken(SCOPE, id)), id);
  }
  assert.equal(decodeToken(SCOPE, ''), null);
});

test('a token has at most 128 bytes, whatever the filter; an id that does not fit is INTERNAL', () => {
  const filtered = pageScope('ListSnapshots', 'v'.repeat(128), 's'.repeat(128));
  assert.match(encodeToken(filtered, `snap-0123456789ab-${UUID}`), /^[A-Za-z0-9_-]{60,96}$/);
  assert.equal(encodeToken(filtered, 'x'.repeat(88)).length, 128);
  assert.throws(() => encodeToken(SCOPE, 'x'.repeat(89)), { code: StatusCode.INTERNAL });
});

test('a token of another rpc or filter is refused', () => {
  const scopes = [
    pageScope('ListVolumes'),
    pageScope('ListSnapshots', '', ''),
    pageScope('ListSnapshots', 'a', ''),
    pageScope('ListSnapshots', '', 'a'),
    pageScope('ListSnapshots', 'a","', ''),
    pageScope('ListSnapshots', 'a,', ''),
  ];
  for (const made of scopes) {
    for (const used of scopes) {
      const token = encodeToken(made, 'id');
      if (made === used) assert.equal(decodeToken(used, token), 'id');
      else aborts(() => decodeToken(used, token), /another list or filter/);
    }
  }
});

test('what is not a token at all, or has any one character changed, is refused', () => {
  const genuine = encodeToken(SCOPE, 'vol-0123456789ab');
  const malformed = ['0', 'invalid-token', '7', ' ', '\0', 'ü', 'a'.repeat(200), `${genuine}=`];
  malformed.push(` ${genuine}`, `${genuine}\n`, genuine.slice(0, 10), genuine.slice(0, -1));
  [...genuine].forEach((character, at) => {
    const others = [...'AZaz09-_'].filter((other) => other !== character);
    malformed.push(...others.map((other) => genuine.slice(0, at) + other + genuine.slice(at + 1)));
  });
  for (const token of malformed) aborts(() => decodeToken(SCOPE, token), /starting_token/);
});
