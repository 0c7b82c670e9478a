/** The suite passes drivers that differ from the plugin and conform. */
import { CONFORMING_DRIVERS } from './fake/conforming.js';
import { proveConforming } from './fake/prove.js';

proveConforming('conforming', CONFORMING_DRIVERS);
