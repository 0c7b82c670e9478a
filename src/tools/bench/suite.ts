/** Defines a suite, and the settings of each run of a suite. */

import type { Cleanup } from '../client/cleanup.js';
import type { Reach } from '../client/connection.js';
import type { Random } from '../random.js';
import type { Curve, Row } from './row.js';

export interface Suite {
  /** Also the first word of the names of its rows. */
  name: string;
  /** Says in one line what the suite measures and needs, for --help and the report. */
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
  /** The socket of the measured driver; null if each suite starts the driver itself. */
  socketPath: string | null;
  reach: Reach;
  /** Parameters for CreateVolume of the measured driver. */
  parameters: Readonly<Record<string, string>>;
  /** And for CreateSnapshot. */
  snapshotParameters: Readonly<Record<string, string>>;
  /** Where volumes are staged and published, and everything else is made. */
  workDirectory: string;
  /** The size of the volumes that are filled; null if the suite chooses. */
  volumeBytes: number | null;
  /** Seeded with the seed that the report names. */
  random: Random;
  /** Undoes what the suite has made, also after a failure or SIGINT. */
  cleanup: Cleanup;
  /** Reports progress on stderr. */
  say(text: string): void;
}

/**
 * Measures each contender once in every round, in a newly shuffled order, so that no contender always follows the same
 * other contender. Returns the figures by contender, in the order of the rounds.
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
