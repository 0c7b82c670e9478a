/**
 * Assertions on a failed call, whether the error comes from the rules or from a gRPC client: one code, a message for people,
 * and none of what CSI forbids.
 */
import assert from 'node:assert/strict';
import type { Metadata } from '@grpc/grpc-js';
import { StatusCode, type StatusName } from '../../src/base/errors.js';
import { eventually } from './eventually.js';

/** The call fails with one of these codes and a message that matches. Resolves to the message. */
export async function refused(
  call: Promise<unknown>,
  codes: StatusName | readonly StatusName[],
  message: RegExp = /./,
): Promise<string> {
  const thrown = await call.then(
    (answer) => assert.fail(`answered OK where ${codes} was expected: ${JSON.stringify(answer)}`),
    (reason: unknown) => reason,
  );
  return assertRefusal(thrown, codes, message);
}

/** As `refused`, of a function that throws at once. */
export function throwsRefusal(
  call: () => unknown,
  codes: StatusName | readonly StatusName[],
  message: RegExp = /./,
): void {
  assert.throws(call, (thrown) => assertRefusal(thrown, codes, message) !== '');
}

/** The status of a call by name: OK if it was answered. */
export async function statusOf(call: Promise<unknown>): Promise<StatusName> {
  try {
    await call;
    return 'OK';
  } catch (thrown) {
    const found = nameOf(thrown);
    if (found === undefined) throw thrown;
    return found;
  }
}

/**
 * Calls that were made at once: each is answered, or ABORTED, or ends as `also` has it for this call.
 *
 * @param isExclusive one alone may be answered
 */
export function assertRaced(
  statuses: readonly StatusName[],
  also: readonly (readonly StatusName[])[],
  isExclusive: boolean,
): void {
  for (const [index, status] of statuses.entries()) {
    const right = ['OK', 'ABORTED', ...(also[index] ?? [])];
    assert.ok(right.includes(status), `${status}, where ${right.join(' or ')} was expected`);
  }
  const succeeded = statuses.filter((status) => status === 'OK').length;
  assert.ok(isExclusive ? succeeded === 1 : succeeded >= 1, statuses.join());
}

/**
 * The call is FAILED_PRECONDITION until it also names who holds a device: the search for the holder has a limited time,
 * which may be too short on a busy machine.
 */
export async function namesHolder(call: () => Promise<unknown>, holder: RegExp): Promise<void> {
  await eventually(`${holder} is named`, async () => holder.test(await refused(call(), 'FAILED_PRECONDITION')));
}

/** What an error of gRPC has, or one of the rules. */
interface Refusal extends Error {
  code?: unknown;
  /** Of gRPC the message without the code. */
  details?: unknown;
  metadata?: Metadata;
}

function assertRefusal(thrown: unknown, codes: StatusName | readonly StatusName[], message: RegExp): string {
  assert.ok(thrown instanceof Error, `not an Error: ${String(thrown)}`);
  const { details, metadata, message: whole } = thrown as Refusal;
  const found = nameOf(thrown);
  assert.ok(found !== undefined && [codes].flat().includes(found), `${codes} expected: ${whole}`);
  const text = typeof details === 'string' ? details : whole;
  assert.ok(text.length > 0, 'G2: the status message is empty');
  assert.doesNotMatch(text, /\n\s+at /, 'G2: the status message holds a stack');
  assert.match(text, message);
  const rich = metadata?.get('grpc-status-details-bin') ?? [];
  assert.deepEqual(rich, [], 'G3: it has rich error details');
  return text;
}

function nameOf(thrown: unknown): StatusName | undefined {
  const { code } = thrown as Refusal;
  return Object.entries(StatusCode).find(([, value]) => value === code)?.[0] as StatusName | undefined;
}
