/** The proof that frames can be written to a call's HTTP/2 stream, and what makes the plugin do without them. */
import assert from 'node:assert/strict';
import { Duplex } from 'node:stream';
import { test } from 'node:test';
import { callStreamOf } from '../../../src/server/calls/call-stream.js';
import { proveFrames } from '../../../src/server/calls/frame-proof.js';

test('frames and the status behind them arrive unchanged with the pinned grpc-js', async () => {
  assert.equal(await proveFrames(), true);
});

test('a call that shows no HTTP/2 stream has none', () => {
  assert.equal(callStreamOf({}), null);
  assert.equal(callStreamOf({ stream: null }), null);
  assert.equal(callStreamOf({ stream: { write: () => true } }), null);
  assert.equal(callStreamOf({ stream: new Duplex() }), null);
});
