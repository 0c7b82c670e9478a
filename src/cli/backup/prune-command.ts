/** `blockdelta prune`: removes backups that no rule keeps. */
import { type Command, Option } from 'commander';
import { CsiError } from '../../base/errors.js';
import { cell } from '../../base/plain-text.js';
import type { VolumeBackups } from '../../tools/backup/chains.js';
import { type KeepRules, RULE_NAMES } from '../../tools/backup/keep-rules.js';
import { type PrunePlan, planPrune } from '../../tools/backup/prune.js';
import type { Repository } from '../../tools/backup/repository.js';
import type { Backup } from '../../tools/backup/stored-backup.js';
import { runToStatus } from '../failures.js';
import { parsePositive } from '../option-values.js';
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
import { changeVolumes } from './volume-changes.js';

interface PruneOptions extends AccessOptions {
  volume: string;
  dryRun: boolean;
  json: boolean;
  compact?: number;
  [rule: `keep${string}`]: number | undefined;
}

const HELP = `
Each rule keeps the newest backup of as many hours, days, ISO weeks, months or years (in UTC)
as it says, and a backup stays if any rule keeps it. The newest backup always stays. The rules
are like those of restic, but restic counts in the time zone of each snapshot, keeps no newest
one beside the rules, and keeps the oldest where a rule has fewer than it may keep. A kept
backup that is based on a removed one gets another image first, which has what it needs of
that one; no image that is there is changed. With --compact, a chain that is too long ends
with one image of the whole volume, on which the next backups are based.

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
    .option(
      '--compact <count>',
      'then make the newest backup a full one, if its chain has more than <count> images',
      parsePositive,
    )
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
  { volume: volumeId, dryRun, json, compact }: PruneOptions,
  rules: KeepRules,
  signal: AbortSignal,
): Promise<void> {
  const all = await repository.all();
  const volumes = all.filter((each) => ['', each.volumeId].includes(volumeId));
  if (volumes.length === 0) throw CsiError.notFound(`${repository.location} has no backups to prune`);
  const planOf = (volume: VolumeBackups): PrunePlan => planPrune(volume, rules, compact);
  const textOf = (plan: PrunePlan): string => textOfPlan(plan, dryRun);
  await changeVolumes(repository, { doing: 'pruning', volumes, planOf, dryRun, json, jsonOf, textOf }, signal);
}

const idOf = ({ manifest }: Backup): string => manifest.snapshot.id;

function jsonOf({ volume, kept, removed, rebased, compacted }: PrunePlan): object {
  return {
    volume: volume.volumeId,
    kept: kept.map(idOf),
    removed: removed.map(idOf),
    rebased: rebased.map(({ backup }) => idOf(backup)),
    compacted: compacted && idOf(compacted.backup),
  };
}

function textOfPlan({ volume, kept, removed, rebased, compacted }: PrunePlan, isPlan: boolean): string {
  const [stay, go] = isPlan ? ['would be kept', 'would be removed'] : ['kept', 'removed'];
  const gone = removed.map((backup) => `  ${isPlan ? 'would remove' : 'removed'}  ${cell(idOf(backup))}\n`);
  const made = isPlan ? 'would make full' : 'made full';
  const full = compacted && `  ${made}  ${cell(idOf(compacted.backup))}, of ${compacted.images} images\n`;
  const merged = rebased.length === 0 ? '' : `, ${rebased.length} of them with copies of what they need`;
  const summary = `${kept.length} ${stay}${merged}, ${removed.length} ${go}`;
  return `volume ${cell(volume.volumeId)}: ${summary}\n${gone.join('')}${full ?? ''}`;
}
