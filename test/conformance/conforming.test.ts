/** The suite passes drivers that differ from the plugin and conform. */
import { proveConforming, proveNotedAsSmall } from './fake/prove.js';

proveConforming();

proveNotedAsSmall([
  ...['delta.content', 'delta.chain', 'delta.resized', 'delta.restored', 'delta.cloned'],
  ...['allocated.content', 'groups.delta'],
]);
