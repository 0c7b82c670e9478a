/** `blockdelta restore --in-place`: its steps, and what it prints. */
import { type InPlaceResult, type Phase, restoreInPlace } from '../../tools/backup/in-place.js';
import type { ChosenBackup } from '../../tools/backup/select.js';
import { CsiDriver } from '../../tools/client/csi-driver.js';
import { complain, harmless, print } from '../output.js';
import { ProgressLine } from '../progress.js';
import { openRuntimeDirectory } from '../runtime-directory.js';
import { TransferProgress } from './transfer-progress.js';

export interface InPlaceOptions {
  socketPath: string;
  /** Of the repository. */
  location: string;
  /** Options of the command to which the restore itself is indifferent. */
  access: readonly string[];
  unprotected: boolean;
  keepSnapshot: boolean;
  json: boolean;
}

const PHASES: Readonly<Record<Phase, string>> = {
  prepare: 'taking a snapshot',
  list: 'reading the list',
  write: 'writing',
  compare: 'comparing what was written',
};

export async function runInPlace(chosen: ChosenBackup, options: InPlaceOptions, signal: AbortSignal): Promise<void> {
  const { socketPath, json } = options;
  const driver = new CsiDriver(socketPath, signal);
  const progress = new TransferProgress(PHASES.prepare);
  const line = new ProgressLine(() => progress.state);
  const onNotice = (message: string): void => {
    line.clear();
    complain(message);
  };
  try {
    const result = await restoreInPlace(chosen, {
      driver,
      runtime: await openRuntimeDirectory(onNotice),
      command: commandOf(chosen, options),
      isUnprotected: options.unprotected,
      keepsSnapshot: options.keepSnapshot,
      signal,
      onNotice,
      onPhase: (phase) => progress.begin(PHASES[phase], null),
    });
    line.end();
    await print(json ? asJson(chosen, result) : harmless(asText(chosen, result)));
  } finally {
    line.end();
    driver.close();
  }
}

/** What a shell runs as this command. */
function commandOf({ backup }: ChosenBackup, { location, socketPath, access }: InPlaceOptions): string {
  const { volume, snapshot } = backup.manifest;
  const words = ['blockdelta', 'restore', location, '--volume', volume.id, '--snapshot', snapshot.id, '--in-place'];
  return [...words, ...access, '--endpoint', `unix://${socketPath}`].map(quoted).join(' ');
}

const quoted = (word: string): string => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);

function asText({ backup, chain }: ChosenBackup, result: InPlaceResult): string {
  const { volumeId, reason, ranges, bytes, keptSnapshotId } = result;
  const what = reason === null ? 'what differed' : 'everything';
  const kept =
    keptSnapshotId === null ? '' : `kept snapshot ${keptSnapshotId}, which has what the volume held before\n`;
  const { id } = backup.manifest.snapshot;
  return (
    `restored snapshot ${id} to volume ${volumeId}: ${what}, ${bytes} bytes in ${ranges} ranges from ${chain.length} images\n` +
    kept
  );
}

/** Sizes are strings, because most JSON readers are inexact above 2^53. */
function asJson({ backup, chain }: ChosenBackup, result: InPlaceResult): string {
  const { volume, snapshot } = backup.manifest;
  const found = {
    snapshot: snapshot.id,
    target: result.volumeId,
    size_bytes: `${volume.sizeBytes}`,
    images: chain.length,
    method: result.reason === null ? 'delta' : 'full',
    reason: result.reason,
    ranges: result.ranges,
    range_bytes: `${result.bytes}`,
    written_bytes: `${result.writtenBytes}`,
    kept_snapshot: result.keptSnapshotId,
  };
  return `${JSON.stringify(found)}\n`;
}
