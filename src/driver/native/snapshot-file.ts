/** A snapshot file, by path and identity. The scan fails with SCAN_REPLACED if the path has another identity. */
export interface SnapshotFile {
  path: string;
  /** st_dev; `inode` is st_ino. */
  device: bigint;
  inode: bigint;
  /** Size of the snapshot, bytes; the scan covers [0, sizeBytes). */
  sizeBytes: bigint;
}
