/** The suite catches every defect of fake/defects-requests.ts, by the checks named there. */
import { REQUEST_DEFECTS } from './fake/defects-requests.js';
import { proveDefects } from './fake/prove.js';

proveDefects('defects-requests', REQUEST_DEFECTS);
