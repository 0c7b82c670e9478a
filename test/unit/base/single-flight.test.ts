/** Single flight: one operation of a kind at a time, its result shared. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SingleFlight } from '../../../src/base/single-flight.js';

test('callers that come while an operation runs share it; a later one starts anew', async () => {
  const flights = new SingleFlight<string, number>();
  let started = 0;
  const gate = new AbortController();
  const opened = new Promise((resolve) => gate.signal.addEventListener('abort', resolve));
  const operation = async (): Promise<number> => {
    started += 1;
    const mine = started;
    await opened;
    return mine;
  };
  const shared = [flights.run('pool', operation), flights.run('pool', operation)];
  const other = flights.run('other', operation);
  gate.abort();
  assert.deepEqual(await Promise.all(shared), [1, 1]);
  assert.equal(await other, 2);
  assert.equal(await flights.run('pool', operation), 3);
});

test('a failure reaches all who share the operation, and the next call starts anew', async () => {
  const flights = new SingleFlight<string, string>();
  const failing = async (): Promise<string> => {
    throw new Error('broken');
  };
  const shared = [flights.run('pool', failing), flights.run('pool', failing)];
  for (const each of shared) await assert.rejects(each, /^Error: broken$/);
  assert.equal(await flights.run('pool', async () => 'well'), 'well');
});
