/**
 * A finished run as a JSON document. docs/bench-report.schema.json is its schema and docs/engineering/performance.md explains it. A
 * field that changes its meaning, or is removed, requires a new version.
 */
import type { Machine } from '../machine.js';
import { type Curve, missedBy, type Row, ratios, type Target, type Verdict, verdict } from '../row.js';
import { type Spread, spread } from '../statistics.js';

export const SCHEMA = 'blockdelta-bench/1';

export interface Document {
  schema: typeof SCHEMA;
  machine: Machine;
  /** The seed of the order of rounds. */
  seed: number;
  rounds: number;
  /** 'tiny' means that the figures mean nothing. */
  size: 'full' | 'tiny';
  /** The size of the volumes as it was given; null for that of each suite. Absent from older reports. */
  volumeBytes?: number | null;
  seconds: number;
  suites: SuiteResult[];
  rows: ReportedRow[];
  curves: Curve[];
}

export interface SuiteResult {
  name: string;
  describes: string;
  seconds: number;
  /** Null if the suite ran to its end. */
  failure: string | null;
}

/** A row with values derived from its figures, for readers that calculate nothing. */
export interface ReportedRow extends Row {
  /** Null if the row has no target. */
  target: Target | null;
  /** Ours divided by the peer's; null if a side was not measured. */
  ratio: Spread | null;
  ratios: number[];
  verdict: Verdict;
  /** The excess as a fraction of the bound; null unless the target is missed. */
  missedBy: number | null;
}

export function reported(row: Row): ReportedRow {
  const found = ratios(row);
  return {
    ...row,
    target: row.target ?? null,
    ratios: found,
    ratio: found.length === 0 ? null : spread(found),
    verdict: verdict(row),
    missedBy: missedBy(row),
  };
}

export function formatJson(document: Document): string {
  return `${JSON.stringify(document, null, 2)}\n`;
}

/** Throws an error that names the fault if the text is no report, or a report of another version. */
export function parseDocument(text: string): Document {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch (error) {
    throw new Error(`it is not JSON: ${(error as Error).message}`);
  }
  if (!isObject(parsed) || typeof parsed['schema'] !== 'string') {
    throw new Error('it is not a report of `blockdelta bench --json`: it has no schema');
  }
  if (parsed['schema'] !== SCHEMA) {
    throw new Error(`its schema is '${parsed['schema']}'; this version reads ${SCHEMA}`);
  }
  const { rows } = parsed;
  if (!Array.isArray(rows) || !isObject(parsed['machine'])) {
    throw new Error('it has no rows or no machine');
  }
  const wrong = rows.findIndex((row) => !isRow(row));
  if (wrong >= 0) throw new Error(`row ${wrong + 1} has no name, or rounds that are not numbers`);
  return parsed as unknown as Document;
}

function isRow(value: unknown): boolean {
  if (!isObject(value) || typeof value['name'] !== 'string') return false;
  const target = value['target'];
  return [value['ours'], value['peer']].every(hasRounds) && (target === null || hasRounds(target));
}

function hasRounds(value: unknown): boolean {
  if (!isObject(value)) return false;
  const rounds = value['rounds'];
  return Array.isArray(rounds) && rounds.every((figure) => typeof figure === 'number');
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
