/** The suite finds nothing wrong with drivers that are made otherwise than ours and keep the rules. */
import { CONFORMING_DRIVERS } from './fake/conforming.js';
import { proveConforming } from './fake/prove.js';

proveConforming('conforming', CONFORMING_DRIVERS);
