/** All checks, in the order they run: what is cheap and basic first, the form of refusals last. */
import type { Check } from './check.js';
import { metadataErrorChecks } from './checks/metadata-errors.js';
import { metadataOffsetChecks } from './checks/metadata-offset.js';
import { metadataOrderChecks } from './checks/metadata-order.js';

export const CHECKS: readonly Check[] = [
  ...metadataOrderChecks,
  ...metadataOffsetChecks,
  ...metadataErrorChecks,
];
