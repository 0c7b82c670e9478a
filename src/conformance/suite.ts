/** All checks, in the order they run: what is cheap and basic first, the form of refusals last. */
import type { Check } from './check.js';
import { metadataCancelChecks } from './checks/metadata-cancel.js';
import { metadataConcurrencyChecks } from './checks/metadata-concurrency.js';
import { metadataDeltaChecks } from './checks/metadata-delta.js';
import { metadataErrorChecks } from './checks/metadata-errors.js';
import { metadataLineageChecks } from './checks/metadata-lineage.js';
import { metadataMountChecks } from './checks/metadata-mount.js';
import { metadataOffsetChecks } from './checks/metadata-offset.js';
import { metadataOrderChecks } from './checks/metadata-order.js';

export const CHECKS: readonly Check[] = [
  ...metadataOrderChecks,
  ...metadataOffsetChecks,
  ...metadataErrorChecks,
  ...metadataDeltaChecks,
  ...metadataMountChecks,
  ...metadataLineageChecks,
  ...metadataCancelChecks,
  ...metadataConcurrencyChecks,
];
