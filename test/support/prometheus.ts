/**
 * Programs of Debian's package prometheus: in the PATH, or where scripts/setup --packages extracts them
 * without installing a service.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { packagePath } from '../../src/base/package-root.js';

/** Null: neither is there. */
export function prometheusProgram(name: 'prometheus' | 'promtool'): string | null {
  const extracted = packagePath('.native-build/prometheus/usr/bin');
  const directories = [...(process.env['PATH'] ?? '').split(':'), extracted];
  const found = directories.map((directory) => join(directory, name)).find(existsSync);
  return found ?? null;
}

export const NO_PROMETHEUS = 'Debian package prometheus is missing: run scripts/setup --packages';
