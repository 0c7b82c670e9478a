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

/** A query as text, and where it stands. */
export interface Query {
  where: string;
  text: string;
}

/** What a query reads: the name and the labels it selects by, of each metric. */
export interface Selection {
  metric: string;
  labels: string[];
}

/** The labels that a query groups or joins by. */
export function groupings({ text }: Query): string[] {
  const found = text.matchAll(/\b(?:by|without|on|ignoring|group_left|group_right) \(([^)]*)\)/g);
  return [...found].flatMap(([, labels = '']) => labels.split(',').map((label) => label.trim()));
}

/** The metrics in a query that look like those of blockdelta or of its process. */
export function selections({ text }: Query): Selection[] {
  const found = text.matchAll(/\b((?:blockdelta|process|nodejs)_[a-z0-9_]+)\s*(?:\{([^}]*)\})?/g);
  return [...found].map(([, metric = '', matchers = '']) => ({
    metric,
    labels: [...matchers.matchAll(/(\w+)\s*(?:=~|!~|!=|=)/g)].map(([, label = '']) => label),
  }));
}
