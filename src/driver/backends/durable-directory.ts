/** A directory that is there for good when it was made. */
import { mkdir, open } from 'node:fs/promises';
import { dirname } from 'node:path';

/** Unless it exists; durable when it resolves, whoever made it. */
export async function makeDirectory(path: string): Promise<void> {
  await mkdir(path, { recursive: true, mode: 0o700 });
  const parent = await open(dirname(path));
  try {
    await parent.sync();
  } finally {
    await parent.close();
  }
}
