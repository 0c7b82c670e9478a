/** Polls for a condition that must hold soon, for at most 5 s. */
export async function eventually(what: string, holds: () => boolean): Promise<void> {
  const deadline = Date.now() + 5000;
  while (!holds()) {
    if (Date.now() > deadline) throw new Error(`did not happen in 5 s: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
