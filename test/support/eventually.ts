/** Polls for a condition that must hold soon. The limit only names what never comes; it measures nothing. */
export async function eventually(what: string, holds: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = Date.now() + 120_000;
  while (!(await holds())) {
    if (Date.now() > deadline) throw new Error(`did not happen in two minutes: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
