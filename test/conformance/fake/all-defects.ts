/** The tables of all broken drivers, in the order in which docs/engineering/conformance-checks.md lists them. */
import type { Defects } from './defect.js';
import { LOSS_DEFECTS } from './defects-losses.js';
import { REQUEST_DEFECTS, SHAPE_DEFECTS } from './defects-messages.js';
import { ORACLE_DEFECTS } from './defects-oracle.js';
import { RESUME_DEFECTS } from './defects-resume.js';
import { RPC_DEFECTS } from './defects-rpcs.js';

export const ALL_DEFECTS: readonly Defects[] = [
  SHAPE_DEFECTS,
  RESUME_DEFECTS,
  REQUEST_DEFECTS,
  ORACLE_DEFECTS,
  RPC_DEFECTS,
  LOSS_DEFECTS,
];
