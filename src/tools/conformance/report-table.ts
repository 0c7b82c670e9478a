/** A report for people: a line per check, then failures, notes, figures, skipped checks and totals. */
import type { CheckResult, Report } from './report.js';
import { countOf } from './report.js';

const MARKS = { passed: 'ok', failed: 'FAILED', skipped: 'skipped' } as const;

export function formatTable(report: Report): string {
  const ran = report.results.filter(({ result }) => result !== 'skipped');
  const parts = [
    headOf(report),
    tableOf(ran),
    section('Failed', report.results.filter(({ result }) => result === 'failed').map(failureOf)),
    section(
      'Notes',
      report.results.flatMap(({ id, notes }) => notes.map((note) => `${id}: ${note}`)),
    ),
    section('Measured', report.results.flatMap(figuresOf)),
    section('Skipped', report.results.filter(({ result }) => result === 'skipped').map(skipOf)),
    totalsOf(report),
  ];
  return `${parts.filter((part) => part !== '').join('\n\n')}\n`;
}

function headOf({ driver, seed }: Report): string {
  const name = driver.name === '' ? 'a driver whose name is unknown' : driver.name;
  return `${name} ${driver.vendorVersion}, seed ${seed}`;
}

function tableOf(results: readonly CheckResult[]): string {
  const ids = Math.max(5, ...results.map(({ id }) => id.length));
  const sections = Math.max(7, ...results.map((result) => result.section.length));
  const row = (id: string, part: string, mark: string, title: string): string =>
    `${id.padEnd(ids)}  ${part.padEnd(sections)}  ${mark.padEnd(6)}  ${title}`;
  return [
    row('CHECK', 'SECTION', 'RESULT', 'TITLE'),
    ...results.map((result) => row(result.id, result.section, MARKS[result.result], result.title)),
  ].join('\n');
}

function section(title: string, lines: readonly string[]): string {
  return lines.length === 0 ? '' : [`${title}:`, ...lines.map((line) => `  ${line}`)].join('\n');
}

function failureOf({ id, level, section: part, detail }: CheckResult): string {
  const weight = level === 'should' ? ' (recommended, not required)' : '';
  return `${id}${weight} [${part}]\n    ${detail ?? ''}`;
}

function figuresOf({ id, figures }: CheckResult): string[] {
  return figures.map(({ name, value, unit }) => {
    const shown = Number.isInteger(value) ? String(value) : value.toFixed(3);
    return `${id}: ${name}: ${shown} ${unit}`;
  });
}

function skipOf({ id, detail }: CheckResult): string {
  return `${id}: ${detail ?? ''}`;
}

export function totalsOf(report: Report): string {
  const counts = (['passed', 'failed', 'skipped'] as const).map((result) => `${countOf(report, result)} ${result}`);
  return `${counts.join(', ')} in ${report.seconds.toFixed(1)} s`;
}
