/** All defects that the conformance suite is tested against. */
import type { Defect } from './defect.js';
import { GROUP_DEFECTS } from './defects-groups.js';
import { ORACLE_DEFECTS } from './defects-oracle.js';
import { REQUEST_DEFECTS } from './defects-requests.js';
import { RESUME_DEFECTS } from './defects-resume.js';
import { SERVICE_DEFECTS } from './defects-services.js';
import { SHAPE_DEFECTS } from './defects-shape.js';
import { VOLUME_DEFECTS } from './defects-volumes.js';

export const DEFECTS: readonly Defect[] = [
  ...SHAPE_DEFECTS,
  ...RESUME_DEFECTS,
  ...REQUEST_DEFECTS,
  ...ORACLE_DEFECTS,
  ...GROUP_DEFECTS,
  ...VOLUME_DEFECTS,
  ...SERVICE_DEFECTS,
];

/** The table of docs/conformance-tool.md. */
export function defectTable(): string {
  const rows = DEFECTS.map(
    ({ does, caughtBy }) => `| ${does} | ${caughtBy.map((id) => `\`${id}\``).join(', ')} |`,
  );
  return ['| a driver that | fails |', '|---|---|', ...rows].join('\n');
}
