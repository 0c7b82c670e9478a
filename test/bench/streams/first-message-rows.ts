/** Time from a call to its first message, by a warm client and server: small volumes, sparse ones, and C++ gRPC. */
import { missingSide, type Row, type Side } from '../../../src/tools/bench/row.js';
import { median } from '../../../src/tools/bench/statistics.js';
import { type Settings, shuffledRounds } from '../../../src/tools/bench/suite.js';
import type { Workspace } from '../../../src/tools/bench/workspace.js';
import { targetOf } from '../targets.js';
import { type Contender, cppServer, isServed, ourServer } from './contenders.js';
import type { StreamRequest } from './stream-reader.js';

/** Each round is the median of so many calls, of each in turn. */
const SIZES = { full: { calls: 31, warmUps: 100 }, tiny: { calls: 3, warmUps: 2 } } as const;
/** As many as one message holds, so that the whole list is the first message of a server that sends no smaller one. */
const ENTRIES = 8192;

interface Question {
  contender: Contender;
  request: StreamRequest;
}

export async function firstMessageRows(settings: Settings, workspace: Workspace): Promise<Row[]> {
  const { calls, warmUps } = SIZES[settings.size];
  const ours = await ourServer(settings, workspace, 'first');
  const cpp = await cppServer(settings, workspace, 'first-cpp');
  const small: Question = { contender: ours, request: { entries: ENTRIES } };
  const sparse: Question = { contender: ours, request: { entries: ENTRIES, layout: 'sparse' } };
  const peer: Question | null = isServed(cpp) ? { ...small, contender: cpp } : null;
  const questions = peer === null ? [small, sparse] : [small, sparse, peer];
  for (const { contender, request } of questions) {
    for (let call = 0; call < warmUps; call += 1) await contender.reader.read(request);
  }
  const found = await shuffledRounds(settings, questions, async ({ contender, request }) => {
    const times: number[] = [];
    for (let call = 0; call < calls; call += 1) {
      times.push((await contender.reader.read(request)).firstMs);
    }
    return median(times);
  });
  const side = (label: string, question: Question): Side => ({
    label,
    unit: 'ms',
    rounds: found.get(question) ?? [],
  });
  const smallSide = side('small volume', small);
  const sparseSide = side('16 TiB sparse', sparse);
  settings.say(
    `first message, ms: small ${median(smallSide.rounds).toFixed(2)}, sparse ${median(sparseSide.rounds).toFixed(2)}`,
  );
  const facts = { client: ours.reader.client, entries: ENTRIES, 'calls a round': calls };
  return [
    {
      name: 'stream-first-message',
      measures: 'time to the first message: a volume of 16 TiB with 8192 extents beside one of 64 MiB with as many',
      ours: sparseSide,
      peer: smallSide,
      target: targetOf('stream-first-message', [median(sparseSide.rounds) / median(smallSide.rounds)]),
      facts,
    },
    {
      name: 'stream-first-message-time',
      measures: 'time from the call to the first message of a small volume, warm',
      ours: { ...smallSide, label: 'blockdelta' },
      peer: peer === null ? missingSide('C++ gRPC', 'ms', 'missing' in cpp ? cpp.missing : '') : side('C++ gRPC', peer),
      target: targetOf('stream-first-message-time', smallSide.rounds),
      facts,
    },
  ];
}
