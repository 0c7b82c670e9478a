/** The suite catches every defect of fake/defects-groups.ts, by the checks named there. */
import { GROUP_DEFECTS } from './fake/defects-groups.js';
import { proveDefects } from './fake/prove.js';

proveDefects('defects-groups', GROUP_DEFECTS);
