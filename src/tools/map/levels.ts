/** The six levels of a cell, by its share. The terminal, the page and both legends show these levels. */

export interface Level {
  /** The largest share that belongs to the level, from 0 to 1. */
  readonly upTo: number;
  readonly label: string;
}

/** A share just below 1 is not 'all', because somebody may look for the cell that is not full. */
export const LEVELS: readonly Level[] = [
  { upTo: 0, label: 'none' },
  { upTo: 0.01, label: 'up to 1 %' },
  { upTo: 0.1, label: 'up to 10 %' },
  { upTo: 0.5, label: 'up to 50 %' },
  { upTo: 1 - Number.EPSILON, label: 'under 100 %' },
  { upTo: 1, label: 'all' },
];

export function levelOf(share: number): number {
  const found = LEVELS.findIndex(({ upTo }) => share <= upTo);
  return found < 0 ? LEVELS.length - 1 : found;
}
