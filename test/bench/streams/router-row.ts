/** What an entry costs the router, beside what it costs the node that serves it directly. */

import { randomInt } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { nodeUri } from '../../../src/base/csi/routed-calls.js';
import { missingSide, type Row } from '../../../src/tools/bench/row.js';
import { type Settings, shuffledRounds } from '../../../src/tools/bench/suite.js';
import type { Workspace } from '../../../src/tools/bench/workspace.js';
import { issueCertificates } from '../certificates.js';
import { findProgram, isMissing } from '../programs.js';
import { forkPatternServer } from './pattern.js';
import { ServerProcess } from './server-process.js';
import { StreamReader } from './stream-reader.js';

const NAME = 'stream-cpu-router';
const UNIT = 'ms/M entries';
const PORT = 9810;
/** Until both are compiled: the router runs little code for each 16 KiB. */
const SIZES = { full: { entries: 4_000_000, warmUps: 5 }, tiny: { entries: 30_000, warmUps: 1 } };

export async function routerRow(settings: Settings, workspace: Workspace): Promise<Row> {
  const measures = 'CPU of the router, all threads, for a million entries, beside the node that serves them directly';
  const openssl = findProgram('openssl');
  if (isMissing(openssl)) {
    const side = missingSide('router', UNIT, openssl.missing);
    return {
      name: NAME,
      measures,
      ours: side,
      peer: { ...side, label: 'node' },
      facts: {},
    };
  }
  const { entries, warmUps } = SIZES[settings.size];
  const [node, router] = await start(settings, workspace);
  const contenders = [
    { label: 'router', server: router, reader: await StreamReader.open(settings, router) },
    { label: 'node', server: node, reader: await StreamReader.open(settings, node) },
  ] as const;
  const sent = new Set<number>();
  const measure = async ({ reader }: (typeof contenders)[number]): Promise<number> => {
    const { cpuMs, bytes } = await reader.read({ entries });
    sent.add(bytes);
    return cpuMs / (entries / 1e6);
  };
  for (let warmUp = 0; warmUp < warmUps; warmUp += 1) {
    for (const contender of contenders) await measure(contender);
  }
  const found = await shuffledRounds(settings, contenders, measure);
  if (sent.size !== 1) throw new Error('the router does not pass on the same bytes');
  const [ours, peer] = contenders.map((contender) => ({
    label: contender.label,
    unit: UNIT,
    rounds: found.get(contender) ?? [],
  })) as [Row['ours'], Row['peer']];
  settings.say(
    `router and node, ${UNIT}: ${[ours, peer].map(({ rounds }) => rounds.map((ms) => ms.toFixed(1)).join(' ')).join('; ')}`,
  );
  return {
    name: NAME,
    measures,
    ours,
    peer,
    facts: { client: contenders[0].reader.client, entries, bytes: [...sent][0] ?? 0 },
  };
}

async function start(settings: Settings, workspace: Workspace): Promise<[node: ServerProcess, router: ServerProcess]> {
  const certificates = await issueCertificates(workspace.directory, {
    node: `DNS:blockdelta-node,URI:${nodeUri('blockdelta.csi', 'bench')}`,
    router: 'DNS:blockdelta-router',
  });
  // All of 127.0.0.0/8 is this machine's own: nothing else listens on an address nobody has chosen.
  const address = `127.${randomInt(1, 255)}.${randomInt(0, 255)}.${randomInt(1, 255)}:${PORT}`;
  const node = await forkPatternServer(settings, workspace.path('node.sock'), {
    env: { BLOCKDELTA_LISTEN_ADDRESS: address, ...certificates.node },
  });
  const list = workspace.path('nodes.json');
  writeFileSync(list, JSON.stringify({ nodes: [{ id: 'bench', address }] }));
  const router = await ServerProcess.fork(settings, 'router-server', workspace.path('router.sock'), {
    env: { BLOCKDELTA_ROUTE_NODES: `file:${list}`, ...certificates.router },
  });
  return [node, router];
}
