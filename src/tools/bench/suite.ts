/** What a suite is, and what each run of one is given. */

import type { Cleanup } from '../client/cleanup.js';
import type { Random } from '../random.js';
import type { Curve, Row } from './row.js';

export interface Suite {
  /** Also the first word of the names of its rows. */
  name: string;
  /** For --help and the report: what it measures and what it needs, in one line. */
  describes: string;
  run(settings: Settings): Promise<Row[]>;
  /** Measured with --curves only. */
  curves?(settings: Settings): Promise<Curve[]>;
}

export interface Settings {
  rounds: number;
  /** 'tiny' shows that a suite works, within seconds; its figures mean nothing. */
  size: 'full' | 'tiny';
  /** The command line of this plugin, compiled, which suites start. */
  program: string;
  /** Of the driver that is measured; null: each suite starts what it measures itself. */
  socketPath: string | null;
  /** Of that driver's CreateVolume. */
  parameters: Readonly<Record<string, string>>;
  /** Of the volumes that are filled; null: the suite chooses. */
  volumeBytes: number | null;
  /** Of the seed that the report names. */
  random: Random;
  /** Undoes what the suite has made, also after a failure or SIGINT. */
  cleanup: Cleanup;
  /** Progress, on stderr. */
  say(text: string): void;
}

/**
 * Measures each contender once in every round, in an order shuffled anew for each, so that none always follows the
 * same other one. Figures come back by contender, in the order of the rounds.
 */
export async function shuffledRounds<T>(
  { rounds, random }: Pick<Settings, 'rounds' | 'random'>,
  contenders: readonly T[],
  measure: (contender: T, round: number) => Promise<number>,
): Promise<Map<T, number[]>> {
  const figures = new Map<T, number[]>(contenders.map((contender) => [contender, []]));
  for (let round = 0; round < rounds; round += 1) {
    for (const contender of random.shuffled(contenders)) {
      figures.get(contender)?.push(await measure(contender, round));
    }
  }
  return figures;
}
