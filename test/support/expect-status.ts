/** Assertions on a failed call: by status code, whether it comes from the domain or over gRPC. */
import assert from 'node:assert/strict';
import { StatusCode, type StatusName } from '../../src/base/errors.js';
import { eventually } from './eventually.js';

/** The promise rejects with this status and a message that matches. */
export async function rejectsWith(
  promise: Promise<unknown>,
  status: StatusName,
  message: RegExp = /./,
): Promise<void> {
  await assert.rejects(promise, (thrown) => hasStatus(thrown, status, message));
}

/**
 * The call is FAILED_PRECONDITION until it also names who holds a device: the search for the holder has a limited time,
 * which may be too short on a busy machine.
 */
export async function namesHolder(call: () => Promise<unknown>, holder: RegExp): Promise<void> {
  await eventually(`${holder} is named`, async () => {
    const thrown = await call().then(
      () => assert.fail(`answered OK where ${holder} holds the device`),
      (error: unknown) => error,
    );
    hasStatus(thrown, 'FAILED_PRECONDITION', /./);
    return holder.test((thrown as Error).message);
  });
}

/** The call throws this status with a message that matches. */
export function throwsWith(call: () => unknown, status: StatusName, message: RegExp = /./): void {
  assert.throws(call, (thrown) => hasStatus(thrown, status, message));
}

function hasStatus(thrown: unknown, status: StatusName, message: RegExp): true {
  assert.ok(thrown instanceof Error, `not an Error: ${String(thrown)}`);
  const { code } = thrown as Error & { code?: unknown };
  const name = Object.entries(StatusCode).find(([, value]) => value === code)?.[0] ?? String(code);
  assert.equal(name, status, `${name}: ${thrown.message}`);
  assert.match(thrown.message, message);
  return true;
}
