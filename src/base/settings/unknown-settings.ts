/**
 * Finds variables that look like settings of the plugin but are none. Most of them are misspelt. Knows names, not values.
 *
 * A variable that differs from a setting by a letter or two is a mistake, and starting without the setting could make a pool in
 * the wrong place. Other unknown names only deserve a warning, because a newer version may know them.
 */
import type { Environment } from './reader.js';
import { ConfigError } from './values.js';

const PREFIX = 'BLOCKDELTA_';
/** Insertions, deletions, substitutions and swaps of neighbours that still count as a misspelling. */
const MISSPELT_DISTANCE = 2;
/** Variables that Kubernetes sets in each container for a Service of the namespace named blockdelta or blockdelta-NAME. */
const OF_KUBERNETES =
  /^BLOCKDELTA_(?:[A-Z0-9_]+_)?(?:SERVICE_(?:HOST|PORT)(?:_[A-Z0-9_]+)?|PORT(?:_\d+_[A-Z]+(?:_[A-Z]+)?)?)$/;

export interface UnknownSetting {
  name: string;
  /** The known setting with the most similar name. */
  nearest: string;
  /** Whether the name is nearly equal to the nearest setting. */
  misspelt: boolean;
}

export function unknownSettings(env: Environment, known: readonly string[]): UnknownSetting[] {
  return Object.keys(env)
    .filter((name) => name.toUpperCase().startsWith(PREFIX) && (env[name] ?? '') !== '')
    .filter((name) => !known.includes(name) && !OF_KUBERNETES.test(name))
    .sort()
    .map((name) => {
      const byDistance = known
        .map((each) => ({ each, distance: distance(name.toUpperCase(), each) }))
        .sort((a, b) => a.distance - b.distance);
      const [first] = byDistance;
      const misspelt = first !== undefined && first.distance <= MISSPELT_DISTANCE;
      return { name, nearest: first?.each ?? '', misspelt };
    });
}

/** @throws ConfigError if the environment has a name that is almost a known name */
export function refuseMisspelt(env: Environment, known: readonly string[]): void {
  const found = unknownSettings(env, known).find(({ misspelt }) => misspelt);
  if (found === undefined) return;
  throw new ConfigError(`${found.name} is not a setting: did you mean ${found.nearest}?`);
}

/** Damerau-Levenshtein distance with neighbours swapped at most once. */
function distance(left: string, right: string): number {
  let before: number[] = [];
  let above = Array.from({ length: right.length + 1 }, (_, column) => column);
  for (let row = 1; row <= left.length; row += 1) {
    const line = [row];
    for (let column = 1; column <= right.length; column += 1) {
      const isSame = left[row - 1] === right[column - 1];
      const isSwapped = left[row - 1] === right[column - 2] && left[row - 2] === right[column - 1];
      line[column] = Math.min(
        (above[column] ?? 0) + 1,
        (line[column - 1] ?? 0) + 1,
        (above[column - 1] ?? 0) + (isSame ? 0 : 1),
        isSwapped && row > 1 ? (before[column - 2] ?? 0) + 1 : Number.POSITIVE_INFINITY,
      );
    }
    before = above;
    above = line;
  }
  return above[right.length] ?? 0;
}
