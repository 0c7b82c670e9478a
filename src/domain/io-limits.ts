/** Limits on what one pod may read from and write to a volume. Knows neither parameters nor cgroups. */

/** Per second; null: no limit. */
export interface IoLimits {
  readonly readBytesPerSecond: bigint | null;
  readonly writeBytesPerSecond: bigint | null;
  readonly readOperationsPerSecond: bigint | null;
  readonly writeOperationsPerSecond: bigint | null;
}
