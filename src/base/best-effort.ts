/**
 * Runs the cleanup behind a failed step and ignores the cleanup's own failure, which must not hide the
 * first one. Only for what is repeated anyway: by the next call for the object, or by the next start.
 */
export async function bestEffort(cleanup: () => Promise<unknown>): Promise<void> {
  try {
    await cleanup();
  } catch {
    // The caller reports the failure that led here.
  }
}
