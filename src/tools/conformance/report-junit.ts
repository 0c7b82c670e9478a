/** A report as JUnit XML, for CI servers. */
import type { CheckResult, Report } from './report.js';
import { countOf } from './report.js';

export function formatJunit(report: Report): string {
  const { driver, seconds, results, startedAt } = report;
  const counts =
    `tests="${results.length}" failures="${countOf(report, 'failed')}" errors="0" ` +
    `skipped="${countOf(report, 'skipped')}" time="${seconds.toFixed(3)}"`;
  const name = attribute(`CSI conformance of ${driver.name} ${driver.vendorVersion}`);
  return [
    '<?xml version="1.0" encoding="UTF-8"?>',
    `<testsuites ${counts}>`,
    `  <testsuite name="${name}" ${counts} timestamp="${startedAt.toISOString()}">`,
    `    <properties><property name="seed" value="${report.seed}"/></properties>`,
    ...results.map(caseOf),
    '  </testsuite>',
    '</testsuites>',
    '',
  ].join('\n');
}

function caseOf(result: CheckResult): string {
  const { id, section, detail, seconds } = result;
  const open =
    `    <testcase classname="${attribute(section)}" name="${attribute(id)}" ` + `time="${seconds.toFixed(3)}">`;
  return [open, ...verdictOf(result, detail ?? ''), ...outputOf(result), '    </testcase>'].join('\n');
}

function verdictOf({ result, title }: CheckResult, detail: string): string[] {
  if (result === 'skipped') return [`      <skipped message="${attribute(detail)}"/>`];
  if (result === 'passed') return [];
  const text = `${title}\n${detail}`;
  return [`      <failure message="${attribute(detail)}">${content(text)}</failure>`];
}

function outputOf({ notes, figures }: CheckResult): string[] {
  const lines = [...notes, ...figures.map(({ name, value, unit }) => `${name}: ${value} ${unit}`)];
  return lines.length === 0 ? [] : [`      <system-out>${content(lines.join('\n'))}</system-out>`];
}

const ESCAPES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  '\n': '&#10;',
  '\t': '&#9;',
  '\r': '&#13;',
};

function attribute(text: string): string {
  return legal(text).replace(/[&<>"\n\t\r]/g, (character) => ESCAPES[character] ?? character);
}

function content(text: string): string {
  return legal(text).replace(/[&<>\r]/g, (character) => ESCAPES[character] ?? character);
}

/** XML 1.0 cannot represent other control characters or an unpaired surrogate. */
function legal(text: string): string {
  return [...text].map((character) => (isLegal(character) ? character : '�')).join('');
}

function isLegal(character: string): boolean {
  const code = character.codePointAt(0) ?? 0;
  if (code < 0x20) return code === 0x9 || code === 0xa || code === 0xd;
  const isHalfPair = code >= 0xd800 && code <= 0xdfff;
  return !isHalfPair && code !== 0xfffe && code !== 0xffff;
}
