/** The suite catches every defect of fake/defects-services.ts, by the checks named there. */
import { SERVICE_DEFECTS } from './fake/defects-services.js';
import { proveDefects } from './fake/prove.js';

proveDefects('defects-services', SERVICE_DEFECTS);
