/** The suite catches every defect of fake/defects-resume.ts, by the checks named there. */
import { RESUME_DEFECTS } from './fake/defects-resume.js';
import { proveDefects } from './fake/prove.js';

proveDefects('defects-resume', RESUME_DEFECTS);
