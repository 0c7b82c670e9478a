/** The suite catches every defect of fake/defects-volumes.ts, by the checks named there. */
import { VOLUME_DEFECTS } from './fake/defects-volumes.js';
import { proveDefects } from './fake/prove.js';

proveDefects('defects-volumes', VOLUME_DEFECTS);
