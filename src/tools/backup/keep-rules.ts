/** Decides which backups stay: a pure function of their times and of rules like those of restic (docs/restore.md has the differences). */

export interface KeepRules {
  /** Keeps this number of the newest backups. */
  readonly last?: number;
  /** These rules keep the newest backup in each of the last N hours, days, weeks, months or years that have a backup. */
  readonly hourly?: number;
  readonly daily?: number;
  readonly weekly?: number;
  readonly monthly?: number;
  readonly yearly?: number;
}

/** The name of a time's bucket under each rule, in UTC. Each rule keeps one backup in a bucket. */
const BUCKETS: Readonly<Record<keyof KeepRules, (time: Date) => string>> = {
  last: (time) => time.toISOString(),
  hourly: (time) => time.toISOString().slice(0, 13),
  daily: (time) => time.toISOString().slice(0, 10),
  weekly: weekOf,
  monthly: (time) => time.toISOString().slice(0, 7),
  yearly: (time) => time.toISOString().slice(0, 4),
};

export const RULE_NAMES = Object.keys(BUCKETS) as (keyof KeepRules)[];

/** Returns the indexes of the times that stay. The newest time always stays. */
export function kept(times: readonly Date[], rules: KeepRules): Set<number> {
  const newestFirst = times
    .map((time, index) => ({ time, index }))
    .sort((a, b) => b.time.getTime() - a.time.getTime() || b.index - a.index);
  const stay = new Set(newestFirst.slice(0, 1).map(({ index }) => index));
  for (const rule of RULE_NAMES) {
    let left = rules[rule] ?? 0;
    let last: string | null = null;
    for (const { time, index } of newestFirst) {
      if (left === 0) break;
      const bucket = rule === 'last' ? `${index}` : BUCKETS[rule](time);
      if (bucket === last) continue;
      last = bucket;
      left -= 1;
      stay.add(index);
    }
  }
  return stay;
}

/** Year and week of ISO 8601: a week belongs to the year of its Thursday. */
function weekOf(time: Date): string {
  const day = new Date(Date.UTC(time.getUTCFullYear(), time.getUTCMonth(), time.getUTCDate()));
  day.setUTCDate(day.getUTCDate() + 4 - (day.getUTCDay() || 7));
  const first = Date.UTC(day.getUTCFullYear(), 0, 1);
  const week = Math.ceil(((day.getTime() - first) / 86_400_000 + 1) / 7);
  return `${day.getUTCFullYear()}-W${week}`;
}
