/** The suite catches every defect of fake/defects-oracle.ts, by the checks named there. */
import { ORACLE_DEFECTS } from './fake/defects-oracle.js';
import { proveDefects } from './fake/prove.js';

proveDefects(ORACLE_DEFECTS);
