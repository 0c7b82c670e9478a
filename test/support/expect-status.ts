/** Assertions on a failed call: by status code, whether it comes from the domain or over gRPC. */
import assert from 'node:assert/strict';
import { StatusCode, type StatusName } from '../../src/base/errors.js';

/** The promise rejects with this status and a message that matches. */
export async function rejectsWith(
  promise: Promise<unknown>,
  status: StatusName,
  message: RegExp = /./,
): Promise<void> {
  await assert.rejects(promise, (thrown) => hasStatus(thrown, status, message));
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
