/** Requests for lists that must be refused, and with which status. */
import { StatusCode } from '../../../base/errors.js';
import { type CheckContext, checksOf, OF_LISTS } from '../check.js';
import { ConformanceFailure, expect } from '../failure.js';
import { allocatedOf, deltaOf, type ListRequest } from '../list-request.js';
import { expectListRefused, readToEnd, skipUnlessServed } from '../lists.js';
import type { Snapshot } from '../objects.js';
import { describeRefusal } from '../refusal.js';

const INVALID = [StatusCode.INVALID_ARGUMENT] as const;
const MIN_INT32 = -(2 ** 31);

function snapshotWithId(id: string): Snapshot {
  return { id, sizeBytes: 0, sourceVolumeId: '', groupId: '' };
}

async function maxResultsNegative(context: CheckContext): Promise<void> {
  for (const list of await context.shared.lists()) {
    for (const maxResults of [-1, MIN_INT32]) {
      try {
        await expectListRefused(context, list, { maxResults }, INVALID);
      } catch (thrown) {
        if (thrown instanceof ConformanceFailure) {
          context.note(
            `the driver may still be computing on ${list.rpc} with max_results ${maxResults}: look at its CPU time`,
          );
        }
        throw thrown;
      }
    }
  }
}

async function idMissing(context: CheckContext): Promise<void> {
  const { base, target } = await context.shared.history();
  const none = snapshotWithId('');
  const lists = [allocatedOf(none), deltaOf(none, target), deltaOf(base, none), deltaOf(none, none)];
  for (const list of lists) await expectListRefused(context, list, {}, INVALID);
}

async function notFound(context: CheckContext): Promise<void> {
  const { volume, base, target } = await context.shared.history();
  const gone = await context.volumes.snapshot(volume);
  await context.volumes.deleteSnapshot(gone);
  const never = snapshotWithId(`no-such-snapshot-${context.random.below(1e9)}`);
  for (const missing of [never, gone]) {
    await expectListRefused(context, allocatedOf(missing), {}, [StatusCode.NOT_FOUND]);
    await expectListRefused(context, deltaOf(base, missing), {}, [StatusCode.NOT_FOUND]);
  }
  await expectListRefused(context, deltaOf(never, target), {}, [StatusCode.NOT_FOUND]);
}

async function otherVolume(context: CheckContext): Promise<void> {
  const { base, target } = await context.shared.history();
  const unrelated = await context.shared.unrelated();
  const codes = [StatusCode.INVALID_ARGUMENT, StatusCode.FAILED_PRECONDITION, StatusCode.NOT_FOUND];
  await expectListRefused(context, deltaOf(base, unrelated), {}, codes);
  await expectListRefused(context, deltaOf(unrelated, target), {}, codes);
}

async function reversed(context: CheckContext): Promise<void> {
  const { base, target } = await context.shared.history();
  const codes = [StatusCode.INVALID_ARGUMENT, StatusCode.FAILED_PRECONDITION];
  await expectListRefused(context, deltaOf(target, base), {}, codes);
}

async function same(context: CheckContext): Promise<void> {
  const { target } = await context.shared.history();
  const list: ListRequest = deltaOf(target, target);
  await skipUnlessServed(context, list);
  const subject = 'GetMetadataDelta of a snapshot and itself';
  const expected = 'INVALID_ARGUMENT or an empty list';
  const { entries, end } = await readToEnd(context, list);
  if (end.code === StatusCode.INVALID_ARGUMENT) return;
  expect(end.code === StatusCode.OK, subject, expected, () => describeRefusal(end));
  expect(entries.length === 0, subject, expected, () => `${entries.length} entries`);
}

const ERRORS = 'SnapshotMetadata: GetMetadataAllocated Errors, GetMetadataDelta Errors';
const DELTA = 'SnapshotMetadata: GetMetadataDelta';

export const metadataErrorChecks = checksOf(OF_LISTS, DELTA, [
  {
    id: 'metadata.id-missing',
    section: ERRORS,
    rule: 'SM1',
    title: 'a missing snapshot id: INVALID_ARGUMENT',
    run: idMissing,
  },
  {
    id: 'metadata.not-found',
    section: ERRORS,
    rule: 'SM2',
    title: 'an unknown or deleted snapshot: NOT_FOUND',
    run: notFound,
  },
  {
    id: 'metadata.other-volume',
    rule: 'SM10',
    title: 'snapshots of different volumes: refused',
    run: otherVolume,
  },
  {
    id: 'metadata.reversed',
    rule: 'SM11',
    title: 'a base taken after the target: refused',
    level: 'should',
    run: reversed,
  },
  {
    id: 'metadata.same',
    rule: 'SM11',
    title: 'base and target are the same snapshot: INVALID_ARGUMENT or an empty list',
    level: 'should',
    run: same,
  },
]);

/** This check runs late, because a driver that computes for ever on the request may answer nothing else any more. */
export const negativeMaxResultsChecks = checksOf(OF_LISTS, ERRORS, [
  {
    id: 'metadata.max-results-negative',
    rule: 'SM6',
    title: 'a negative max_results: INVALID_ARGUMENT',
    level: 'should',
    run: maxResultsNegative,
  },
]);
