/**
 * Suite transfer: pulls of snapshots from one pool to another over the loopback interface, beside dd and socat with TLS 1.3, and
 * what a pull costs the plugins of both nodes and their other clients.
 */
import { statfsSync } from 'node:fs';
import { requireRoot } from '../../../src/tools/bench/pool.js';
import type { Row } from '../../../src/tools/bench/row.js';
import { type Settings, type Suite, shuffledRounds } from '../../../src/tools/bench/suite.js';
import { findProgram, isMissing } from '../programs.js';
import { targetOf } from '../targets.js';
import { nodeRows } from '../transfer/node-rows.js';
import { CHANGED_SHARE, change, fill, MeasuredPull, MIB, makePools, socatSeconds } from '../transfer/two-pools.js';

const KIB = 2 ** 10;
const GIB = 2 ** 30;
/** Half of each volume is data. */
const SIZES = {
  full: { whole: 4 * GIB, delta: 16 * GIB, node: 2 * GIB },
  tiny: { whole: 64 * MIB, delta: 64 * MIB, node: 256 * MIB },
} as const;
const LEAST_BYTES = 64 * MIB;
const PROGRAMS = ['nbdkit', 'nbdcopy', 'socat', 'openssl'] as const;
const SLACK_S = 0.3;
/** What nbdkit and nbdcopy may use together. */
const MEMORY_MIB = 60;

export const suite: Suite = {
  name: 'transfer',
  describes: 'pulls of snapshots between two nodes over TLS, beside dd through socat (root, nbdkit, libnbd-bin, socat)',

  async run(settings: Settings): Promise<Row[]> {
    requireRoot();
    for (const program of PROGRAMS) {
      const found = findProgram(program);
      if (isMissing(found)) throw new Error(found.missing);
    }
    const sizes = sizesOf(settings);
    requireSpace(settings, sizes);
    const ofNodes = await nodeRows(settings, sizes.node);
    return [...(await pullRows(settings, sizes)), ...ofNodes];
  },
};

interface Sizes {
  whole: number;
  delta: number;
  node: number;
}

/** No volume is larger than the size of the run. */
function sizesOf({ size, volumeBytes }: Settings): Sizes {
  const { whole, delta, node } = SIZES[size];
  if (volumeBytes === null) return { whole, delta, node };
  const most = Math.max(LEAST_BYTES, Math.floor(volumeBytes / LEAST_BYTES) * LEAST_BYTES);
  return { whole: Math.min(whole, most), delta: Math.min(delta, most), node: Math.min(node, most) };
}

/**
 * The rows of nodes end before the others begin. Each of their pulls leaves a replica; the others leave the data at the source
 * and once at the target, whose pool may take as much again before it uses freed space.
 */
function requireSpace({ workDirectory, rounds }: Settings, { whole, delta, node }: Sizes): void {
  const { bavail, bsize } = statfsSync(workDirectory);
  const needed = GIB + Math.max(((rounds + 6) * node) / 2, 1.5 * (whole + delta));
  if (bavail * bsize >= needed) return;
  const [has, wants] = [bavail * bsize, needed].map((bytes) => (bytes / GIB).toFixed(1));
  throw new Error(`${workDirectory} has ${has} GiB of ${wants}: make room, or give a smaller --volume-size`);
}

async function pullRows(settings: Settings, sizes: Sizes): Promise<Row[]> {
  const [wholeBytes, deltaBytes] = [sizes.whole / 2, sizes.delta / 2];
  const pools = await makePools(settings);
  settings.say(`writing ${wholeBytes / MIB} and ${deltaBytes / MIB} MiB`);
  const single = await (await pools.volume(sizes.whole))((file) => fill(file, wholeBytes));
  const snapshot = await pools.volume(sizes.delta);
  const first = await snapshot((file) => fill(file, deltaBytes));
  const large = await snapshot((file) => change(settings, file, deltaBytes, 64 * KIB));
  const small = await snapshot((file) => change(settings, file, deltaBytes, 4 * KIB));

  const whole = new MeasuredPull(pools, single, null);
  const chain = {
    base: new MeasuredPull(pools, first, null),
    large: new MeasuredPull(pools, large, first),
    small: new MeasuredPull(pools, small, large),
  };
  const wholePull = async (): Promise<number> => {
    const seconds = await whole.measure();
    await whole.remove();
    return seconds;
  };
  const socat = (): Promise<number> => socatSeconds(pools, single, wholeBytes);
  // Each from the one before, as the pulls of a volume follow one another.
  const pullChain = async (): Promise<number> => {
    let seconds = 0;
    for (const pull of Object.values(chain)) seconds += await pull.measure();
    for (const pull of Object.values(chain)) await pull.remove();
    return seconds;
  };
  settings.say(`pulls of ${wholeBytes / MIB} and ${deltaBytes / MIB} MiB, ${settings.rounds} rounds`);
  const found = await shuffledRounds(settings, [wholePull, socat, pullChain], (contender) => contender());
  const rates = (seconds: readonly number[]): number[] => seconds.map((each) => wholeBytes / MIB / each);
  const memory = whole.programMiB.map((one, round) =>
    Math.max(one, ...Object.values(chain).map(({ programMiB }) => programMiB[round] ?? 0)),
  );
  const facts = factsOf(sizes.delta);
  return [
    {
      name: 'transfer-whole',
      measures: 'a whole pull, until it is durable, beside dd through socat with TLS 1.3 and dd with fsync',
      ours: { label: 'pull', unit: 'MiB/s', rounds: rates(whole.seconds) },
      peer: { label: 'dd, socat', unit: 'MiB/s', rounds: rates(found.get(socat) ?? []) },
      better: 'higher',
      facts: factsOf(sizes.whole),
    },
    ...deltaRows('transfer-delta', 64, { delta: chain.large, whole: chain.base }, facts),
    ...deltaRows('transfer-delta-blocks', 4, { delta: chain.small, whole: chain.base }, facts),
    {
      name: 'transfer-memory',
      measures: 'memory of nbdkit and nbdcopy together during a pull, the most of each',
      ours: { label: 'both', unit: 'MiB', rounds: memory },
      peer: { label: 'allowed', unit: 'MiB', rounds: memory.map(() => MEMORY_MIB) },
      target: targetOf('transfer-memory', memory),
      facts,
    },
  ];
}

const factsOf = (bytes: number): Row['facts'] => ({
  'MiB of the volume': bytes / MIB,
  'MiB of data': bytes / 2 / MIB,
});

function deltaRows(
  name: 'transfer-delta' | 'transfer-delta-blocks',
  pieceKiB: number,
  { delta, whole }: Record<'delta' | 'whole', MeasuredPull>,
  facts: Row['facts'],
): Row[] {
  const { seconds, sentBytes, changedBytes } = delta;
  const pieces = `1 % changed in pieces of ${pieceKiB} KiB`;
  const bare = seconds.map((each, round) => Math.max(0, each - SLACK_S) / (whole.seconds[round] ?? Number.NaN));
  return [
    {
      name,
      measures: `a pull after ${pieces}, beside the whole one`,
      ours: { label: 'pull of the delta', unit: 's', rounds: seconds },
      peer: { label: 'whole pull', unit: 's', rounds: whole.seconds },
      target: targetOf(name, bare),
      facts: { ...facts, 'changed share': CHANGED_SHARE },
    },
    {
      name: `${name}-bytes`,
      measures: `bytes on the wire of a pull after ${pieces}, beside the changed bytes`,
      ours: { label: 'bytes on the wire', unit: 'MiB', rounds: sentBytes.map((each) => each / MIB) },
      peer: { label: 'changed', unit: 'MiB', rounds: sentBytes.map(() => changedBytes / MIB) },
      facts,
    },
  ];
}
