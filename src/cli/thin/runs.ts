/** The runs of blocks in which two thin devices agree or differ, batch by batch. */
import { CsiError } from '../../base/errors.js';
import type { ThinDeltaKind } from '../../native/thin-addon.js';
import { attempt, outcomeOf, type ThinTrees } from './pool-metadata.js';

export type RunKind = (typeof ThinDeltaKind)[keyof typeof ThinDeltaKind];

/** Counted in data blocks. */
export interface Run {
  readonly kind: RunKind;
  readonly begin: bigint;
  readonly length: bigint;
}

export interface RunsRequest {
  readonly base: number;
  readonly target: number;
  readonly includeSame: boolean;
}

export interface Batch {
  readonly runs: readonly Run[];
  /** Blocks of metadata read for it. */
  readonly nodes: number;
}

const WORDS_PER_RUN = 3;
const RUNS_PER_CALL = 65_536;
/** Until the first run is out, a delta whose trees moved can begin again. */
const BEGINNINGS = 3;

/**
 * All runs in ascending order, neighbours of one kind joined. Each batch is checked before it is given
 * out: the roots of both devices are still those of the beginning. Throws when they are not.
 */
export async function* readRuns(
  trees: ThinTrees,
  request: RunsRequest,
  signal: AbortSignal,
): AsyncGenerator<Batch, void, undefined> {
  let roots = await rootsOf(trees, request);
  const joiner = new RunJoiner();
  let firstBlock = 0n;
  for (let beginnings = 1; ; ) {
    signal.throwIfAborted();
    const found = await attempt(() =>
      trees.delta({ ...request, firstBlock, maxRecords: RUNS_PER_CALL }),
    );
    const now = await rootsOf(trees, request);
    if (now.some((root, index) => root !== roots[index])) {
      if (firstBlock > 0n || beginnings === BEGINNINGS) throw moved(trees, request);
      beginnings += 1;
      roots = now;
      continue;
    }
    const { words, nodes, nextBlock, done } = outcomeOf(found, trees.metadata);
    const runs = joiner.accept(words);
    if (done) {
      yield { runs: runs.concat(joiner.finish()), nodes };
      return;
    }
    if (nextBlock <= firstBlock) throw CsiError.internal('a delta did not move on');
    firstBlock = nextBlock;
    yield { runs, nodes };
  }
}

function rootsOf(trees: ThinTrees, { base, target }: RunsRequest): Promise<bigint[]> {
  return trees.rootsOf([base, target]);
}

function moved(trees: ThinTrees, { base, target }: RunsRequest): CsiError {
  return trees.moved(`thin device ${base} or ${target}`);
}

/** Joins neighbours of one kind over the ends of batches. */
class RunJoiner {
  #held: Run | null = null;

  accept(words: BigUint64Array): Run[] {
    const runs: Run[] = [];
    for (let at = 0; at < words.length; at += WORDS_PER_RUN) {
      const kind = Number(words[at]) as RunKind;
      this.#place(runs, { kind, begin: words[at + 1] ?? 0n, length: words[at + 2] ?? 0n });
    }
    return runs;
  }

  finish(): Run[] {
    const runs = this.#held === null ? [] : [this.#held];
    this.#held = null;
    return runs;
  }

  #place(runs: Run[], run: Run): void {
    const held = this.#held;
    const touches = held !== null && held.begin + held.length === run.begin;
    if (touches && held.kind === run.kind) {
      this.#held = { ...held, length: held.length + run.length };
      return;
    }
    if (held !== null) runs.push(held);
    this.#held = run;
  }
}
