/** All checks, in the order in which they run: cheap and basic checks first, the form of error statuses last. */
import type { Check } from './check.js';
import { controllerSnapshotChecks } from './checks/controller-snapshots.js';
import { controllerVolumeChecks } from './checks/controller-volumes.js';
import { groupChecks } from './checks/groups.js';
import { groupContentChecks } from './checks/groups-content.js';
import { identityChecks, statusChecks } from './checks/identity.js';
import { lossOfLineageChecks } from './checks/losses-lineage.js';
import { lossOfRangesChecks } from './checks/losses-ranges.js';
import { lossOfZerosChecks } from './checks/losses-zeros.js';
import { metadataCancelChecks } from './checks/metadata-cancel.js';
import { metadataConcurrencyChecks } from './checks/metadata-concurrency.js';
import { metadataContentChecks } from './checks/metadata-content.js';
import { metadataErrorChecks, negativeMaxResultsChecks } from './checks/metadata-errors.js';
import { metadataFormatChecks } from './checks/metadata-format.js';
import { metadataLineageChecks } from './checks/metadata-lineage.js';
import { metadataMountChecks } from './checks/metadata-mount.js';
import { metadataOffsetChecks } from './checks/metadata-offset.js';

export const CHECKS: readonly Check[] = [
  ...identityChecks,
  ...controllerVolumeChecks,
  ...controllerSnapshotChecks,
  ...metadataFormatChecks,
  ...metadataOffsetChecks,
  ...metadataErrorChecks,
  ...metadataContentChecks,
  ...metadataMountChecks,
  ...metadataLineageChecks,
  ...lossOfRangesChecks,
  ...lossOfZerosChecks,
  ...lossOfLineageChecks,
  ...metadataCancelChecks,
  ...metadataConcurrencyChecks,
  ...groupChecks,
  ...groupContentChecks,
  ...negativeMaxResultsChecks,
  ...statusChecks,
];
