/** All defects that the conformance suite is proved against. */
import type { Defect } from './defect.js';
import { GROUP_DEFECTS } from './defects-groups.js';
import { REQUEST_DEFECTS } from './defects-requests.js';
import { RESUME_DEFECTS } from './defects-resume.js';
import { SERVICE_DEFECTS } from './defects-services.js';
import { SHAPE_DEFECTS } from './defects-shape.js';
import { TRUTH_DEFECTS } from './defects-truth.js';

export const DEFECTS: readonly Defect[] = [
  ...SHAPE_DEFECTS,
  ...RESUME_DEFECTS,
  ...REQUEST_DEFECTS,
  ...TRUTH_DEFECTS,
  ...GROUP_DEFECTS,
  ...SERVICE_DEFECTS,
];
