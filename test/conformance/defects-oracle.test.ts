/** The suite catches every defect of fake/defects-oracle.ts, by the checks named there. */
import { TRUTH_DEFECTS } from './fake/defects-oracle.js';
import { proveDefects } from './fake/prove.js';

proveDefects('defects-oracle', TRUTH_DEFECTS);
