/** Asserts what CSI requires of every failed call, on the error a gRPC client gets. */
import assert from 'node:assert/strict';
import type { ServiceError } from '@grpc/grpc-js';
import { StatusCode, type StatusName } from '../../src/base/errors.js';

/**
 * The call fails with one of these codes, a message for humans and no details. Resolves to the
 * message.
 */
export async function refused(
  call: Promise<unknown>,
  codes: StatusName | readonly StatusName[],
  message: RegExp = /./,
): Promise<string> {
  const outcome = await call.then(
    (answer) => ({ answer }),
    (error: ServiceError) => ({ error }),
  );
  if (!('error' in outcome)) {
    assert.fail(`answered OK where ${codes} was expected: ${JSON.stringify(outcome.answer)}`);
  }
  const { error } = outcome;
  const wanted = (typeof codes === 'string' ? [codes] : codes).map((name) => StatusCode[name]);
  assert.ok(
    wanted.some((code) => code === error.code),
    `${codes} expected: ${error.message}`,
  );
  assert.ok(error.details.length > 0, 'G2: the status message is empty');
  assert.doesNotMatch(error.details, /\n\s+at /, 'G2: the status message holds a stack');
  assert.match(error.details, message);
  assert.deepEqual(
    error.metadata.get('grpc-status-details-bin'),
    [],
    'G3: the status has rich error details',
  );
  return error.details;
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
