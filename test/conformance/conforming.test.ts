/** The suite passes drivers that differ from the plugin and conform. */
import { isNightly } from '../support/nightly.js';
import { proveConforming, proveNotedAsSmall } from './fake/prove.js';

proveConforming();

const OTHERS = ['delta.chain', 'delta.resized', 'delta.restored', 'delta.cloned', 'groups.delta'];

proveNotedAsSmall(['delta.content', 'allocated.content', ...(isNightly ? OTHERS : [])]);
