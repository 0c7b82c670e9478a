/**
 * Rows thin-*: deltas of two snapshots in a pool of ten million mapped blocks, beside thin_delta, with
 * the metadata in memory and on the disk; and what else the scan is held against.
 */
import { rmSync } from 'node:fs';
import type { Row } from '../../src/bench/row.js';
import type { Settings } from '../../src/bench/suite.js';
import { loadAddon } from '../../src/native/addon.js';
import {
  BASE_DEVICE,
  makeMetadata,
  TARGET_DEVICE,
  THIN_CASES,
  type ThinCase,
} from './thin-cases.js';
import { agreedRanges, type DuelSettings, duel } from './thin-duel.js';
import { countNodes, type NodeCount } from './thin-nodes.js';
import { thinDeltaVersion } from './thin-peer.js';
import { makePlaces, onDisk, type Places, removeFromDisk } from './thin-place.js';
import { scanOnce, thinSource } from './thin-scan.js';
import { nodesRow, peakRow, processRow } from './thin-side-rows.js';
import { streamRow } from './thin-stream-row.js';

interface Bench {
  settings: Settings;
  places: Places;
  duels: DuelSettings;
}

export async function thinRows(settings: Settings): Promise<Row[]> {
  if (process.getuid?.() !== 0) throw new Error('thin needs root: loop devices');
  settings.say(`thin_delta ${thinDeltaVersion()}`);
  const places = makePlaces(settings);
  const empty = places.memoryPath('empty');
  await makeMetadata(empty, { pattern: 'random', changed: 1 }, 1);
  const { rounds, say } = settings;
  const bench = { settings, places, duels: { addon: loadAddon(), rounds, empty, say } };
  const rows: Row[] = [];
  for (const thinCase of THIN_CASES) rows.push(...(await rowsOf(bench, thinCase)));
  return rows;
}

/** One file at a time, so that memory and disk hold one. */
async function rowsOf(bench: Bench, thinCase: ThinCase): Promise<Row[]> {
  const { places, duels } = bench;
  const { name, words } = thinCase;
  const file = places.memoryPath(name);
  await makeMetadata(file, thinCase);
  const expected = await agreedRanges(duels.addon, file);
  const counted = countNodes(file, BASE_DEVICE, TARGET_DEVICE);
  const rows = [
    await duel(duels, {
      name: `thin-${name}`,
      measures: `delta, ${words}, metadata in memory`,
      metadata: file,
      expected,
      atLeastTimes: thinCase.inMemory,
      facts: { 'nodes in one tree only': counted.differing },
    }),
  ];
  const isFirst = thinCase === THIN_CASES[0];
  if (isFirst) rows.push(...(await firstCaseRows(bench, file, counted)));
  const device = await onDisk(places.workspace, file, name);
  rmSync(file);
  rows.push(
    await duel(duels, {
      name: `thin-${name}-disk`,
      measures: 'the same, metadata on the disk, read past the page cache',
      metadata: device,
      expected,
      atLeastTimes: thinCase.direct,
      facts: {},
    }),
  );
  if (isFirst) {
    rows.push(peakRow('thin-peak-disk', '1 % random on the disk', device, duels.rounds));
  }
  await removeFromDisk(places.workspace, device, name);
  return rows;
}

async function firstCaseRows(
  { settings, places, duels }: Bench,
  file: string,
  counted: NodeCount,
): Promise<Row[]> {
  const { addon, rounds } = duels;
  return [
    nodesRow(scanOnce(addon, thinSource(addon, file)), counted),
    peakRow('thin-peak', '1 % random in memory', file, rounds),
    await streamRow(settings, addon, file, places.workspace.path('thin.sock')),
    await processRow(file, rounds),
  ];
}
