/** `blockdelta backup --all` and `blockdelta backup -`: a line for each snapshot, a summary, the metrics file and the exit code. */
import { humanSize } from '../../base/human-size.js';
import { cell, plainJson } from '../../base/plain-text.js';
import type { BackupResult } from '../../tools/backup/backup.js';
import { backUpMany, type Outcome } from '../../tools/backup/backup-many.js';
import { BackupMetrics } from '../../tools/backup/backup-metrics.js';
import type { Repository } from '../../tools/backup/repository.js';
import type { CsiDriver } from '../../tools/client/csi-driver.js';
import { ExitCode } from '../exit-codes.js';
import { failureOf } from '../failures.js';
import { type CommandFailure, complain, print } from '../output.js';
import { replaceOutput } from '../output-file.js';
import { ProgressLine } from '../progress.js';

export interface ManyBackups {
  driver: CsiDriver;
  repository: Repository;
  /** Null: all that the driver lists. */
  snapshotIds: readonly string[] | null;
  volumeId: string | null;
  jobs: number;
  json: boolean;
  /** Where the metrics are written; null for nowhere. */
  metricsPath: string | null;
  signal: AbortSignal;
  backUp(snapshotId: string, onNotice: (message: string) => void): Promise<BackupResult>;
  jsonOf(result: BackupResult, seconds: number | null): object;
}

/** Resolves to the exit code. Rejects if the snapshots cannot be listed. */
export async function runManyBackups(many: ManyBackups): Promise<ExitCode> {
  const { driver, repository, json, metricsPath, signal } = many;
  const started = performance.now();
  let ended = 0;
  const line = new ProgressLine(() => ({ share: null, text: `backing up; ${ended} snapshots are done` }));
  const say = (outcome: Outcome): Promise<void> => {
    ended += 1;
    line.clear();
    return print(json ? `${plainJson(JSON.stringify(jsonOf(outcome, many)))}\n` : `${cell(textOf(outcome))}\n`);
  };
  const backUp = (snapshotId: string): Promise<BackupResult> =>
    many.backUp(snapshotId, (message) => {
      line.clear();
      complain(`snapshot ${snapshotId}: ${message}`);
    });
  try {
    const outcomes = await backUpMany({ ...many, backUp, onOutcome: say });
    const seconds = (performance.now() - started) / 1000;
    const sums = sumsOf(outcomes);
    line.end();
    await print(json ? `${JSON.stringify({ ...sums, seconds })}\n` : summary(sums, seconds));
    if (metricsPath !== null) {
      const metrics = new BackupMetrics();
      await metrics.fill(driver, repository, outcomes);
      await replaceOutput(metricsPath, await metrics.registry.metrics());
    }
    signal.throwIfAborted();
    return exitCodeOf(outcomes);
  } finally {
    line.end();
  }
}

const failureIn = ({ end }: Outcome): CommandFailure | null => ('failure' in end ? failureOf(end.failure) : null);

/** Of failures alone: their code if they have the same one. */
function exitCodeOf(outcomes: readonly Outcome[]): ExitCode {
  const failures = outcomes.flatMap((outcome) => failureIn(outcome) ?? []);
  const [first] = failures;
  if (first === undefined) return ExitCode.OK;
  if (outcomes.some(({ end }) => 'result' in end)) return ExitCode.SOME_FAILED;
  return failures.every(({ code }) => code === first.code) ? first.code : ExitCode.FAILURE;
}

interface Sums {
  readonly new: number;
  readonly full: number;
  readonly known: number;
  readonly skipped: number;
  readonly failed: number;
  readonly image_bytes: string;
}

function sumsOf(outcomes: readonly Outcome[]): Sums {
  const results = outcomes.flatMap(({ end }) => ('result' in end ? [end.result] : []));
  const made = results.filter(({ isNew }) => isNew).map(({ backup }) => backup.manifest);
  return {
    new: made.length,
    full: made.filter(({ method }) => method === 'full').length,
    known: results.length - made.length,
    skipped: outcomes.filter(({ end }) => 'skipped' in end).length,
    failed: outcomes.filter(({ end }) => 'failure' in end).length,
    image_bytes: `${made.reduce((sum, { image }) => sum + image.bytes, 0n)}`,
  };
}

const summary = ({ new: made, full, known, skipped, failed, image_bytes: bytes }: Sums, seconds: number): string =>
  `${made} new backups, ${full} of them full; ${known} snapshots had one, ${skipped} were skipped, ${failed} failed; ` +
  `${humanSize(BigInt(bytes))} in ${seconds.toFixed(1)} s\n`;

function textOf(outcome: Outcome): string {
  const { snapshotId, end } = outcome;
  if ('skipped' in end) return `${snapshotId}  skipped: ${end.skipped}`;
  if ('failure' in end) return `${snapshotId}  failed: ${failureOf(end.failure).message}`;
  const { backup, isNew } = end.result;
  if (!isNew) return `${snapshotId}  has a backup`;
  const { base, reason, image } = backup.manifest;
  const how = base === null ? `full${reason === null ? '' : `: ${reason}`}` : `delta from ${base.snapshotId}`;
  return `${snapshotId}  ${humanSize(image.bytes)}, ${how}`;
}

function jsonOf(outcome: Outcome, { jsonOf: describe }: ManyBackups): object {
  const { snapshotId, volumeId, end } = outcome;
  if ('result' in end) return describe(end.result, null);
  const [skipped, error] = 'skipped' in end ? [end.skipped, null] : [null, failureOf(end.failure).message];
  return { snapshot_id: snapshotId, volume_id: volumeId, skipped, error };
}
