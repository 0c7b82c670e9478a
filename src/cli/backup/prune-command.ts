/** `blockdelta prune`: removes backups that no rule keeps. */
import { type Command, Option } from 'commander';
import { CsiError, messageOf, StatusCode } from '../../base/errors.js';
import { cell, harmless, plainJson } from '../../base/plain-text.js';
import type { VolumeBackups } from '../../tools/backup/chains.js';
import { type KeepRules, RULE_NAMES } from '../../tools/backup/keep-rules.js';
import { StoreError } from '../../tools/backup/object-store.js';
import { type PrunePlan, planPrune, prune } from '../../tools/backup/prune.js';
import type { Repository } from '../../tools/backup/repository.js';
import { runToStatus } from '../failures.js';
import { print } from '../output.js';
import { ProgressLine } from '../progress.js';
import { openRuntimeDirectory } from '../runtime-directory.js';
import {
  type AccessOptions,
  addAccess,
  addSpool,
  JSON_HELP,
  parseCount,
  parseRepository,
  REPOSITORY_HELP,
  VOLUME_HELP,
  withRepository,
} from './shared-options.js';

interface PruneOptions extends AccessOptions {
  volume: string;
  dryRun: boolean;
  json: boolean;
  [rule: `keep${string}`]: number | undefined;
}

const HELP = `
Each rule keeps the newest backup of as many hours, days, ISO weeks, months or years (in UTC)
as it says, and a backup stays if any rule keeps it. The newest backup always stays. The rules
are like those of restic, but restic counts in the time zone of each snapshot, keeps no newest
one beside the rules, and keeps the oldest where a rule has fewer than it may keep. A kept
backup that is based on a removed one gets another image first, which has what it needs of
that one; no image that is there is changed.

Exit codes:
  0    done
  1    another failure, of one volume or more; every backup that is listed is still complete
  2    wrong usage
  4    there is no such directory
  5    others can write to the directory, or a volume's manifests are damaged or contradict each
       other, or a chain is not complete, or an image that stays is not as its manifest says:
       nothing of that volume was removed
  8    the remote failed; another run continues
  130  stopped by SIGINT or SIGTERM`;

export function addPruneCommand(program: Command): void {
  const command = program
    .command('prune')
    .description('remove backups that no rule keeps, without breaking a chain')
    .argument('<repository>', REPOSITORY_HELP, parseRepository)
    .option('--volume <id>', VOLUME_HELP, '')
    .option('--dry-run', 'print what would be done', false)
    .option('--json', JSON_HELP, false)
    .addHelpText('after', HELP);
  addSpool(addAccess(command));
  for (const rule of RULE_NAMES) {
    const what = rule === 'last' ? 'the newest <count>' : `the newest of <count> ${periodOf(rule)}`;
    command.addOption(new Option(`--keep-${rule} <count>`, `keep ${what}`).argParser(parseCount));
  }
  command.action(async (location: string, options: PruneOptions) => {
    const rules = rulesIn(options);
    if (Object.keys(rules).length === 0) {
      command.error('error: no rule is given, such as --keep-last 7');
    }
    if (Object.values(rules).every((count) => count === 0)) {
      command.error(
        'error: every rule that is given keeps 0 backups, so all but the newest of each volume would go; name a rule ' +
          'that keeps some, such as --keep-last 7, or say --keep-last 1 if that is what is meant',
      );
    }
    process.exitCode = await runToStatus((signal) =>
      withRepository(location, options, signal, (repository) => pruneAll(repository, options, rules, signal)),
    );
  });
}

const periodOf = (rule: string): string => ({ daily: 'days' })[rule] ?? `${rule.slice(0, -2)}s`;

function rulesIn(options: PruneOptions): KeepRules {
  const given = RULE_NAMES.flatMap((rule) => {
    const count = options[`keep${rule.charAt(0).toUpperCase()}${rule.slice(1)}`];
    return count === undefined ? [] : [[rule, count]];
  });
  return Object.fromEntries(given) as KeepRules;
}

async function pruneAll(
  repository: Repository,
  { volume: volumeId, dryRun, json }: PruneOptions,
  rules: KeepRules,
  signal: AbortSignal,
): Promise<void> {
  const all = await repository.all();
  const volumes = all.filter((each) => ['', each.volumeId].includes(volumeId));
  if (volumes.length === 0) throw CsiError.notFound(`${repository.location} has no backups to prune`);
  let current = '';
  const line = new ProgressLine(() => ({ share: null, text: `pruning ${current}` }));
  const plans: PrunePlan[] = [];
  /** A failure of one volume does not stop the others. */
  const failures: unknown[] = [];
  const runtime = dryRun ? null : await openRuntimeDirectory();
  const pruneOne = async (volume: VolumeBackups): Promise<void> => {
    const seen = planPrune(volume, rules);
    if (runtime === null) {
      plans.push(seen);
      return;
    }
    const lock = await repository.lock(volume.volumeId);
    try {
      for (const { path, found } of lock.problems) {
        failures.push(CsiError.failedPrecondition(`${path} stays: ${found}`));
      }
      const plan = planPrune(await repository.backupsOf(volume.volumeId), rules);
      plans.push(plan);
      const onBackup = ({ name }: { name: string }): void => {
        current = name;
      };
      await prune(repository, plan, { runtime, signal, onBackup });
    } finally {
      lock.release();
    }
  };
  try {
    for (const volume of volumes) {
      await pruneOne(volume).catch((thrown: unknown) => {
        signal.throwIfAborted();
        failures.push(thrown);
      });
    }
  } finally {
    line.end();
  }
  const text = plans.map((plan) => textOf(plan, dryRun)).join('');
  await print(json ? `${plainJson(JSON.stringify(plans.map(jsonOf)))}\n` : harmless(text));
  if (failures.length === 0) return;
  const message = failures.map(messageOf).join('\n');
  if (failures.every((thrown) => thrown instanceof StoreError)) throw new StoreError(message);
  const areRefusals = failures.every(
    (thrown) => thrown instanceof CsiError && thrown.code === StatusCode.FAILED_PRECONDITION,
  );
  throw areRefusals ? CsiError.failedPrecondition(message) : new Error(message);
}

function jsonOf({ volume, kept, removed, rebased }: PrunePlan): object {
  const ids = (backups: PrunePlan['kept']) => backups.map(({ manifest }) => manifest.snapshot.id);
  return {
    volume: volume.volumeId,
    kept: ids(kept),
    removed: ids(removed),
    rebased: ids(rebased.map(({ backup }) => backup)),
  };
}

function textOf({ volume, kept, removed, rebased }: PrunePlan, isPlan: boolean): string {
  const [stay, go] = isPlan ? ['would be kept', 'would be removed'] : ['kept', 'removed'];
  const lines = removed.map(
    ({ manifest }) => `  ${isPlan ? 'would remove' : 'removed'}  ${cell(manifest.snapshot.id)}\n`,
  );
  const merged = rebased.length === 0 ? '' : `, ${rebased.length} of them with copies of what they need`;
  return `volume ${cell(volume.volumeId)}: ${kept.length} ${stay}${merged}, ${removed.length} ${go}\n${lines.join('')}`;
}
