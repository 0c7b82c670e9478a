/** All defects that the conformance suite is tested against. */
import type { Defects } from './defect.js';
import { ORACLE_DEFECTS } from './defects-oracle.js';
import { REQUEST_DEFECTS } from './defects-requests.js';
import { RESUME_DEFECTS } from './defects-resume.js';
import { RPC_DEFECTS } from './defects-rpcs.js';
import { SHAPE_DEFECTS } from './defects-shape.js';

const TABLES = [SHAPE_DEFECTS, RESUME_DEFECTS, REQUEST_DEFECTS, ORACLE_DEFECTS, RPC_DEFECTS];

/** Each defect once, with the checks that must catch it. */
export function listOf(...tables: readonly Defects[]) {
  return tables.flatMap((table) =>
    Object.entries(table).flatMap(([checks, defects]) =>
      Object.entries(defects).map(([does, defect]) => ({
        ...{ does, defect, caughtBy: checks.split(', ') },
      })),
    ),
  );
}

export const DEFECTS = listOf(...TABLES);
