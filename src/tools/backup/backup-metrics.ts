/**
 * What a run of many backups leaves for Prometheus, as the text that node_exporter reads from files. It describes the newest backup
 * of each volume that is there, also of those whose backups failed. docs/metrics.md lists the metrics.
 */
import { Gauge, Registry } from 'prom-client';
import { CsiError } from '../../base/errors.js';
import { cell } from '../../base/plain-text.js';
import type { CsiDriver } from '../client/csi-driver.js';
import { listVolumeIds } from '../client/snapshot-info.js';
import type { Outcome } from './backup-many.js';
import type { Repository } from './repository.js';
import { type Backup, timeOf } from './stored-backup.js';

const REASON_LENGTH = 300;

export class BackupMetrics {
  readonly registry = new Registry();
  readonly #snapshotTime = this.#gauge(
    'blockdelta_backup_snapshot_timestamp_seconds',
    'when the newest snapshot of the volume that has a backup was taken; 0 if none has',
    ['volume'],
  );
  readonly #imageBytes = this.#gauge('blockdelta_backup_image_bytes', 'size of the newest image of the volume', [
    'volume',
  ]);
  readonly #seconds = this.#gauge('blockdelta_backup_seconds', 'how long the newest backup of the volume took', [
    'volume',
  ]);
  readonly #info = this.#gauge(
    'blockdelta_backup_info',
    'always 1; says how the newest backup was made, and why it is full',
    ['volume', 'method', 'reason'],
  );
  readonly #failures = this.#gauge(
    'blockdelta_backup_failures',
    'snapshots of the volume that the last run could not back up; of no volume: those whose volume is not known',
    ['volume'],
  );
  readonly #runTime = this.#gauge('blockdelta_backup_run_timestamp_seconds', 'when the last run ended', []);

  /**
   * Describes the volumes of a run, and all others of the driver that have backups. One whose backups cannot be read counts as a
   * failure.
   */
  async fill(driver: CsiDriver, repository: Repository, outcomes: readonly Outcome[]): Promise<void> {
    const failures = outcomes.flatMap(({ volumeId, end }) => ('failure' in end ? [volumeId ?? ''] : []));
    const made = outcomes.flatMap(({ volumeId, end }) => ('result' in end ? (volumeId ?? []) : []));
    const concerned = new Set([...made, ...failures.filter((id) => id !== '')]);
    for (const volume of new Set([...concerned, ...((await listVolumeIds(driver)) ?? [])])) {
      try {
        const { backups } = await repository.backupsOf(volume);
        this.#describe(volume, backups.at(-1), concerned.has(volume));
      } catch (thrown) {
        if (!(thrown instanceof CsiError)) throw thrown;
        if (!failures.includes(volume)) failures.push(volume);
      }
    }
    for (const volume of failures) this.#failures.inc({ volume });
    this.#runTime.set(Date.now() / 1000);
  }

  #describe(volume: string, newest: Backup | undefined, isConcerned: boolean): void {
    if (newest === undefined && !isConcerned) return;
    this.#snapshotTime.set({ volume }, newest === undefined ? 0 : timeOf(newest) / 1000);
    this.#failures.set({ volume }, 0);
    if (newest === undefined) return;
    const { image, method, reason, startedAt, completedAt } = newest.manifest;
    this.#imageBytes.set({ volume }, Number(image.bytes));
    this.#seconds.set({ volume }, (Date.parse(completedAt) - Date.parse(startedAt)) / 1000);
    this.#info.set({ volume, method, reason: cell(reason ?? '').slice(0, REASON_LENGTH) }, 1);
  }

  #gauge<L extends string>(name: string, help: string, labelNames: L[]): Gauge<L> {
    return new Gauge({ name, help, labelNames, registers: [this.registry] });
  }
}
