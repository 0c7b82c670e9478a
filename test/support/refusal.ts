/** Asserts what CSI requires of every failed call, on the error a gRPC client gets. */
import assert from 'node:assert/strict';
import type { ServiceError } from '@grpc/grpc-js';
import { StatusCode, type StatusName } from '../../src/base/errors.js';
import { statusName } from '../../src/tools/conformance/refusal.js';

/** The call fails with one of these codes, a message for humans and no details. Resolves to the message. */
export async function refused(
  call: Promise<unknown>,
  codes: StatusName | readonly StatusName[],
  message: RegExp = /./,
): Promise<string> {
  const error = await call.then(
    (answer) => assert.fail(`answered OK where ${codes} was expected: ${JSON.stringify(answer)}`),
    (thrown: ServiceError) => thrown,
  );
  const { code, metadata, details } = error;
  const wanted: string[] = [codes].flat();
  assert.ok(wanted.includes(statusName(code)), `${codes} expected: ${error.message}`);
  assert.ok(details.length > 0, 'G2: the status message is empty');
  assert.doesNotMatch(details, /\n\s+at /, 'G2: the status message holds a stack');
  assert.match(details, message);
  assert.deepEqual(metadata.get('grpc-status-details-bin'), [], 'G3: it has rich error details');
  return details;
}

/** The status of a call by name: OK if it was answered. */
export async function statusOf(call: Promise<unknown>): Promise<StatusName> {
  try {
    await call;
    return 'OK';
  } catch (thrown) {
    const { code } = thrown as ServiceError;
    const found = Object.entries(StatusCode).find(([, value]) => value === code);
    if (found === undefined) throw thrown;
    return found[0] as StatusName;
  }
}
