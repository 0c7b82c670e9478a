/** The suite finds nothing wrong with drivers that are made otherwise than ours and keep the rules. */
import { LAWFUL_DRIVERS } from './fake/conforming.js';
import { proveLawful } from './fake/prove.js';

proveLawful('lawful', LAWFUL_DRIVERS);
