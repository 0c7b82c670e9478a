/** Places for the files of tests, which are removed when the process ends; workspace.ts is for mounts and devices. */
import { mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const made: string[] = [];
process.once('exit', () => {
  for (const directory of made) {
    try {
      rmSync(directory, { recursive: true, force: true });
    } catch {
      // A killed program is not dead yet and writes there; the suite removes the rest.
    }
  }
});

export function temporaryDirectory(): string {
  const directory = realpathSync(mkdtempSync(join(tmpdir(), 'blockdelta-')));
  made.push(directory);
  return directory;
}
