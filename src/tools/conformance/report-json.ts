/** A report for programs. `format` increases with every incompatible change. */
import { rounded } from '../../base/human-size.js';
import type { Report } from './report.js';
import { countOf } from './report.js';

const FORMAT = 1;

export function formatJson(report: Report): string {
  const document = {
    format: FORMAT,
    driver: { name: report.driver.name, vendor_version: report.driver.vendorVersion },
    seed: report.seed,
    started_at: report.startedAt.toISOString(),
    seconds: rounded(report.seconds, 3),
    passed: countOf(report, 'passed'),
    failed: countOf(report, 'failed'),
    skipped: countOf(report, 'skipped'),
    checks: report.results.map((result) => ({
      id: result.id,
      section: result.section,
      title: result.title,
      level: result.level,
      result: result.result,
      detail: result.detail,
      notes: result.notes,
      figures: result.figures,
      seconds: rounded(result.seconds, 3),
    })),
  };
  return `${JSON.stringify(document, null, 2)}\n`;
}
