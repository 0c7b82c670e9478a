/**
 * Suite thin: the native scan of dm-thin metadata, called as a worker of the plugin calls it, beside thin_delta, with
 * the metadata in memory and on the disk. The metadata is generated, so that no device-mapper is needed.
 */

import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { type Addon, loadAddon } from '../../../src/driver/native/addon.js';
import { requireRoot } from '../../../src/tools/bench/pool.js';
import type { Row } from '../../../src/tools/bench/row.js';
import type { Settings, Suite } from '../../../src/tools/bench/suite.js';
import { Workspace } from '../../../src/tools/bench/workspace.js';
import { agreedRanges, duel } from '../thin/duel.js';
import {
  BASE_DEVICE,
  type Metadata,
  makeMemoryDirectory,
  makeMetadata,
  onDisk,
  TARGET_DEVICE,
  THIN_CASES,
  type ThinCase,
} from '../thin/metadata.js';
import { countNodes } from '../thin/nodes.js';
import { scanOnce, thinSource } from '../thin/scan.js';
import { nodesRow, peakRow, processRow } from '../thin/side-rows.js';
import { streamRow } from '../thin/stream-row.js';
import { thinDeltaProblem } from '../thin/thin-delta.js';

export const suite: Suite = {
  name: 'thin',
  describes: 'the scan of dm-thin metadata in memory and on the disk, beside thin_delta (root)',

  async run(settings: Settings): Promise<Row[]> {
    requireRoot();
    const problem = thinDeltaProblem();
    if (problem !== null) throw new Error(problem);
    const workspace = Workspace.make(settings, 'thin');
    const memory = makeMemoryDirectory(settings);
    const empty = await makeMetadata(join(memory, 'empty'), { pattern: 'random', changed: 1 }, 'empty');
    const bed = { settings, workspace, memory, empty, addon: loadAddon() };
    const rows: Row[] = [];
    for (const thinCase of THIN_CASES) rows.push(...(await rowsOf(bed, thinCase)));
    return rows;
  },
};

interface Bed {
  settings: Settings;
  workspace: Workspace;
  /** A directory. */
  memory: string;
  empty: Metadata;
  addon: Addon;
}

/** One file at a time, so that memory and disk hold one. */
async function rowsOf(bed: Bed, thinCase: ThinCase): Promise<Row[]> {
  const { settings, workspace, memory, empty, addon } = bed;
  const { name, words } = thinCase;
  settings.say(`making metadata: ${words}`);
  const metadata = await makeMetadata(join(memory, name), thinCase, settings.size);
  const expected = await agreedRanges(addon, metadata);
  const counted = countNodes(metadata.path, BASE_DEVICE, TARGET_DEVICE);
  const given = { empty, expected };
  const rows = [
    await duel(settings, addon, {
      ...given,
      name: `thin-${name}`,
      measures: `delta, ${words}, metadata in memory`,
      metadata,
      atLeastTimes: thinCase.inMemory,
      facts: { 'nodes in one tree only': counted.differing },
    }),
  ];
  const isFirst = thinCase === THIN_CASES[0];
  if (isFirst) {
    rows.push(
      nodesRow(scanOnce(addon, thinSource(addon, metadata)), counted),
      await peakRow(settings, 'thin-peak', '1 % random in memory', metadata),
      await streamRow(settings, addon, metadata, workspace.path('thin.sock')),
      await processRow(settings, metadata),
    );
  }
  const device = await onDisk(workspace, metadata);
  rmSync(metadata.path);
  rows.push(
    await duel(settings, addon, {
      ...given,
      name: `thin-${name}-disk`,
      measures: `delta, ${words}, metadata on the disk, read past the page cache`,
      metadata: device,
      atLeastTimes: thinCase.onDisk,
      facts: {},
    }),
  );
  if (isFirst) {
    rows.push(await peakRow(settings, 'thin-peak-disk', '1 % random on the disk', device));
  }
  await device.remove();
  return rows;
}
