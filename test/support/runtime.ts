/** A runtime directory of a test's own, in this process. */

import { tryLock } from '../../src/base/system/file-lock.js';
import { RuntimeDirectory } from '../../src/base/system/runtime-directory.js';

/** Reports go to `reports`. */
export function openRuntime(path: string, reports: string[] = []): Promise<RuntimeDirectory> {
  return RuntimeDirectory.open(path, { tryLock, report: (message) => reports.push(message) });
}
