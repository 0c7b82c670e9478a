/** Changes the backups of volumes, one after the other, by a plan for each: for `prune` and `compact`. */
import { CsiError, messageOf, StatusCode } from '../../base/errors.js';
import { harmless, plainJson } from '../../base/plain-text.js';
import type { VolumeBackups } from '../../tools/backup/chains.js';
import { StoreError } from '../../tools/backup/object-store.js';
import { type PrunePlan, prune } from '../../tools/backup/prune.js';
import type { Repository } from '../../tools/backup/repository.js';
import { complain, print } from '../output.js';
import { ProgressLine } from '../progress.js';

export interface VolumeChanges<Plan extends PrunePlan> {
  /** For the line of progress, such as 'pruning'. */
  doing: string;
  volumes: readonly VolumeBackups[];
  planOf(volume: VolumeBackups): Plan;
  /** The plans are printed and not carried out. */
  dryRun?: boolean;
  json: boolean;
  jsonOf(plan: Plan): object;
  textOf(plan: Plan): string;
}

/** A failure of one volume does not stop the others. All failures are thrown as one at the end. */
export async function changeVolumes<Plan extends PrunePlan>(
  repository: Repository,
  { doing, volumes, planOf, dryRun = false, json, jsonOf, textOf }: VolumeChanges<Plan>,
  signal: AbortSignal,
): Promise<void> {
  let current = '';
  const line = new ProgressLine(() => ({ share: null, text: `${doing} ${current}` }));
  const plans: Plan[] = [];
  const failures: unknown[] = [];
  const change = async (volume: VolumeBackups): Promise<void> => {
    const seen = planOf(volume);
    if (dryRun) {
      plans.push(seen);
      return;
    }
    const lock = await repository.lock(volume.volumeId);
    try {
      for (const { path, found } of lock.problems) {
        failures.push(CsiError.failedPrecondition(`${path} stays: ${found}`));
      }
      await repository.addWaiting(volume.volumeId, (message) => {
        line.clear();
        complain(message);
      });
      const plan = planOf(await repository.backupsOf(volume.volumeId));
      const onBackup = ({ name }: { name: string }): void => {
        current = name;
      };
      await prune(repository, plan, { signal, onBackup });
      plans.push(plan);
    } finally {
      lock.release();
    }
  };
  try {
    for (const volume of volumes) {
      await change(volume).catch((thrown: unknown) => {
        signal.throwIfAborted();
        failures.push(thrown);
      });
    }
  } finally {
    line.end();
  }
  const text = plans.map(textOf).join('');
  await print(json ? `${plainJson(JSON.stringify(plans.map(jsonOf)))}\n` : harmless(text));
  if (failures.length === 0) return;
  const message = failures.map(messageOf).join('\n');
  if (failures.every((thrown) => thrown instanceof StoreError)) throw new StoreError(message);
  const areRefusals = failures.every(
    (thrown) => thrown instanceof CsiError && thrown.code === StatusCode.FAILED_PRECONDITION,
  );
  throw areRefusals ? CsiError.failedPrecondition(message) : new Error(message);
}
