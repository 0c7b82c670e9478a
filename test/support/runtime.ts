/** A runtime directory of a test's own, in this process. */
import { RuntimeDirectory } from '../../src/base/runtime-directory.js';
import { tryLock } from '../../src/base/system/file-lock.js';

/** Reports go to `reports`. */
export function openRuntime(path: string, reports: string[] = []): Promise<RuntimeDirectory> {
  return RuntimeDirectory.open(path, { tryLock, report: (message) => reports.push(message) });
}
