/**
 * The files of a thin pool as a released version writes them, without a kernel: a ledger, a bookmark and change lists, on
 * metadata that scripts/make-thin-metadata has made. What they say is asked by today's code.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { nodeKey } from '../../src/base/csi/handles.js';
import { type NativeResult, toSystemError } from '../../src/base/system/native-result.js';
import { loadAddon, type ScanSource } from '../../src/driver/native/addon.js';
import type { BuiltStep } from '../../src/driver/native/change-list-addon.js';
import { openLedgerHere } from './direct-database.js';
import { RELEASED_NODE_ID, type Release, rangesAsText } from './released.js';
import { temporaryDirectory } from './temporary.js';
import { makeThinMetadata } from './thin-tools.js';
import { decodeFrames } from './wire.js';

const KEY = nodeKey(RELEASED_NODE_ID);
const VOLUME = `vol-${KEY}-00000000-0000-4000-8000-000000000001`;
/** Devices 2 to 4, of which the first is deleted and the last are there. */
const SNAPSHOTS = [2, 3, 4].map((id) => ({ id, name: `snap-${KEY}-00000000-0000-4000-8000-00000000000${id}` }));
const BLOCK_BYTES = 65_536n;
const SIZE = 4096n * BLOCK_BYTES;
const FILL_BUFFER_BYTES = 1 << 20;
const addon = loadAddon();

const CURRENT = 0n;
const bookmarkIn = (directory: string): string => join(directory, 'bases', 'bookmark');
const listIn = (directory: string, step: number): string => join(directory, 'lists', `step-${step}`);
const metadataIn = (directory: string): string => join(directory, 'metadata');

/** Writes thin.tar.zst. Returns what it says. */
export async function writeThinFixture(archive: string): Promise<unknown> {
  const directory = temporaryDirectory();
  for (const name of ['bases', 'lists']) mkdirSync(join(directory, name));
  const metadata = metadataIn(directory);
  await makeThinMetadata(metadata, ['--mapped', '2000', '--snaps', '3', '--changed', '0.02']);
  const place = { metadata, superblock: CURRENT };
  const [base, ...others] = SNAPSHOTS;
  if (base === undefined) throw new Error('there are three snapshots');
  must(
    addon.createThinBookmark({
      ...place,
      device: { deviceId: base.id, root: null },
      sizeBytes: SIZE,
      temporaryPath: `${bookmarkIn(directory)}.tmp`,
      path: bookmarkIn(directory),
    }),
  );
  let before: {
    id: string;
    device: { deviceId: number; root: null } | null;
    bookmarkPath: string | null;
  } = {
    id: base.name,
    device: null,
    bookmarkPath: bookmarkIn(directory),
  };
  for (const [step, { id, name }] of others.entries()) {
    const device = { deviceId: id, root: null };
    buildList(metadata, { id: name, sizeBytes: SIZE, device }, { ...before, sizeBytes: SIZE }, listIn(directory, step));
    before = { id: name, device, bookmarkPath: null };
  }
  writeLedger(join(directory, 'pool.sqlite'));
  execFileSync('tar', ['-c', '--zstd', '-f', archive, '-C', directory, '.']);
  return thinAnswers(directory);
}

export function unpackThin({ path }: Release, directory: string): void {
  execFileSync('tar', ['-x', '--zstd', '-f', path('thin.tar.zst'), '-C', directory]);
}

/** What today's code reads in such a directory. */
export function thinAnswers(directory: string): unknown {
  const ledger = openLedgerHere(join(directory, 'pool.sqlite'));
  const path = bookmarkIn(directory);
  const lists = [0, 1].map((step) => listIn(directory, step));
  const [base, , target] = SNAPSHOTS;
  const times = thinTimes(metadataIn(directory));
  const answers = {
    pool: ledger.pool(),
    devices: ledger.devices(),
    bookmarks: ledger.bookmarks(),
    transaction: ledger.openTransaction(),
    initialized: ledger.initializedVolumes(),
    bookmark: must(addon.verifyThinBookmark({ path })),
    heads: lists.map((each) => must(addon.changeListHead({ path: each }))),
    'list of the bookmark': rangesOf({
      kind: 'thin',
      metadata: metadataIn(directory),
      superblock: CURRENT,
      sizeBytes: SIZE,
      target: { deviceId: target?.id ?? 0, root: null },
      base: null,
      bookmark: { path },
    }),
    'list of the stored lists': rangesOf({
      kind: 'lists',
      sizeBytes: SIZE,
      paths: lists,
      target: null,
      base: null,
      targetId: target?.name ?? '',
      baseId: base?.name ?? '',
      thin: { targetTime: times.get(target?.id ?? 0) ?? 0, baseTime: times.get(base?.id ?? 0) ?? 0 },
    }),
  };
  ledger.close();
  const asText = (_name: string, value: unknown): unknown => (typeof value === 'bigint' ? `${value}` : value);
  return JSON.parse(JSON.stringify(answers, asText));
}

type BuildRequest = Parameters<typeof addon.buildThinList>[0];

function buildList(
  metadata: string,
  target: BuildRequest['target'],
  base: BuildRequest['base'],
  finalPath: string,
): void {
  const names = { temporaryPath: `${finalPath}.tmp`, finalPath };
  for (let progress: BigUint64Array | null = null; ; ) {
    const request: BuildRequest = { metadata, target, base, names, maxNodes: 100_000, progress };
    const step: BuiltStep = must(addon.buildThinList(request));
    if (step.done) return;
    progress = step.progress;
  }
}

/** Objects in every state, and a transaction that is open. */
function writeLedger(file: string): void {
  const ledger = openLedgerHere(file);
  ledger.makePool(BLOCK_BYTES);
  ledger.setPoolState('ready');
  ledger.setLabelledBytes(SIZE);
  ledger.recordStart('boot', true);
  const volume = { objectId: VOLUME, kind: 'volume' as const, sizeBytes: SIZE, lineage: VOLUME };
  const snapshots = SNAPSHOTS.map(({ name }) => ({
    objectId: name,
    kind: 'snapshot' as const,
    sizeBytes: SIZE,
    lineage: VOLUME,
  }));
  ledger.begin([volume, ...snapshots], []);
  ledger.apply();
  ledger.markInitialized([VOLUME]);
  ledger.insertBookmark({
    snapshotId: SNAPSHOTS[0]?.name ?? '',
    lineage: VOLUME,
    sizeBytes: SIZE,
    creationTime: 1,
    storedBytes: 8192n,
    invalidReason: null,
  });
  const another = VOLUME.replace(/1$/, '9');
  ledger.begin([{ ...volume, objectId: another, lineage: another }], [SNAPSHOTS[2]?.name ?? '']);
  ledger.close();
}

function thinTimes(metadata: string): Map<number, number> {
  const { devices } = must(addon.thinDevices({ metadata, superblock: CURRENT, deviceIds: null }));
  return new Map(devices.map(({ deviceId, creationTime }) => [deviceId, creationTime]));
}

function rangesOf(source: ScanSource): string {
  const buffer = new ArrayBuffer(FILL_BUFFER_BYTES);
  const limits = { maxEntries: 10_000, maxEntriesPerMessage: 1000, maxExtents: 1_000_000 };
  const whole = { offset: 0n, rangeStart: 0n, sendEmpty: false };
  const { bytes, done } = must(addon.fillMetadata({ source, ...whole, ...limits }, buffer));
  if (!done) throw new Error('the list does not fit into one answer');
  const messages = decodeFrames(new Uint8Array(buffer, 0, bytes));
  return rangesAsText(messages.flatMap(({ ranges }) => ranges));
}

function must<T extends object>(answer: NativeResult<T>): T {
  if (!answer.ok) throw toSystemError(answer);
  return answer;
}
