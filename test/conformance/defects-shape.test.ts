/** The suite catches every defect of fake/defects-shape.ts, by the checks named there. */
import { SHAPE_DEFECTS } from './fake/defects-shape.js';
import { proveDefects } from './fake/prove.js';

proveDefects('defects-shape', SHAPE_DEFECTS);
