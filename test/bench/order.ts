/** The contenders of one round, each time another one first, so that none always follows the same. */
export function orderOf<T>(contenders: readonly T[], round: number): T[] {
  const first = round % contenders.length;
  return [...contenders.slice(first), ...contenders.slice(0, first)];
}
