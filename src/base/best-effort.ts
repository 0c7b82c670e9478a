/**
 * Undoes a step that failed, as far as possible: the failure that led here says more than one of the
 * undoing, which must not take its place. What stays behind has a row, and the next call or the next
 * start takes it up.
 */
export async function bestEffort(undo: () => Promise<void>): Promise<void> {
  try {
    await undo();
  } catch {
    // See above.
  }
}
