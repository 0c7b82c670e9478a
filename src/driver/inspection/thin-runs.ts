/** The runs of blocks in which two thin devices agree or differ, in batches. */
import { CsiError } from '../../base/errors.js';
import type { ThinDeltaKind } from '../native/thin-addon.js';
import { attempt, outcomeOf, type ThinTrees } from './thin-trees.js';

export type RunKind = (typeof ThinDeltaKind)[keyof typeof ThinDeltaKind];

/** `begin` and `length` are in data blocks. */
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
  /** The number of metadata blocks that were read for the batch. */
  readonly nodes: number;
}

const WORDS_PER_RUN = 3;
const RUNS_PER_CALL = 65_536;
/** Attempts at a delta whose trees change before the first batch is returned. */
const ATTEMPTS = 3;

/**
 * Yields all runs in ascending order, with adjacent runs of one kind merged. Each batch is checked before it is
 * yielded: FAILED_PRECONDITION if the root of a device has changed since the first batch, or in all ATTEMPTS at it.
 */
export async function* readRuns(
  trees: ThinTrees,
  request: RunsRequest,
  signal: AbortSignal,
): AsyncGenerator<Batch, void, undefined> {
  let roots = await rootsOf(trees, request);
  const joiner = new RunJoiner();
  let firstBlock = 0n;
  for (let attempts = 1; ; ) {
    signal.throwIfAborted();
    const found = await attempt(() => trees.delta({ ...request, firstBlock, maxRecords: RUNS_PER_CALL }));
    const now = await rootsOf(trees, request);
    if (now.some((root, index) => root !== roots[index])) {
      if (firstBlock > 0n || attempts === ATTEMPTS) throw moved(trees, request);
      attempts += 1;
      roots = now;
      continue;
    }
    const { words, nodes, nextBlock, done } = outcomeOf(found, trees.metadata);
    const runs = joiner.accept(words);
    if (done) {
      yield { runs: runs.concat(joiner.finish()), nodes };
      return;
    }
    if (nextBlock <= firstBlock) throw CsiError.internal('a native delta call made no progress');
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

/** Merges adjacent runs of one kind, across batches. */
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
