/** The suite passes drivers that differ from the plugin and conform. */
import { CONFORMING_DRIVERS } from './fake/conforming.js';
import { proveConforming, proveNotedAsSmall } from './fake/prove.js';

proveConforming('conforming', CONFORMING_DRIVERS);

proveNotedAsSmall('small-volumes', [
  'delta.content',
  'delta.chain',
  'delta.resized',
  'delta.restored',
  'delta.cloned',
  'allocated.content',
  'groups.delta',
]);
