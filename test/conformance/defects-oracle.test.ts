/** The suite catches every defect of fake/defects-truth.ts, by the checks named there. */
import { TRUTH_DEFECTS } from './fake/defects-truth.js';
import { proveDefects } from './fake/prove.js';

proveDefects('defects-truth', TRUTH_DEFECTS);
