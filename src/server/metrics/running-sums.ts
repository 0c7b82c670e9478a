/** Totals over many runs, readable while some runs are still open. Each run hands in its own sums at its start and end. */
import { Counter, type Registry } from 'prom-client';

export class RunningSums<Name extends string> {
  readonly #ended: Record<Name, number>;
  readonly #open = new Set<Readonly<Record<Name, number | bigint>>>();

  constructor(private readonly names: readonly Name[]) {
    this.#ended = Object.fromEntries(names.map((name) => [name, 0])) as Record<Name, number>;
  }

  get running(): number {
    return this.#open.size;
  }

  /** @param sums is read until `end` gets the same object */
  begin(sums: Readonly<Record<Name, number | bigint>>): void {
    this.#open.add(sums);
  }

  /** Returns false if the run did not begin or has already ended. */
  end(sums: Readonly<Record<Name, number | bigint>>): boolean {
    if (!this.#open.delete(sums)) return false;
    for (const name of this.names) this.#ended[name] += Number(sums[name]);
    return true;
  }

  total(name: Name): number {
    return [...this.#open].reduce((sum, sums) => sum + Number(sums[name]), this.#ended[name]);
  }
}

/** A counter that reads all of its series each time metrics are collected. */
export function readCounter<Label extends string>(
  registry: Registry,
  { name, help, labelNames }: { name: string; help: string; labelNames: readonly Label[] },
  read: () => Iterable<readonly [labels: Record<Label, string>, value: number]>,
): void {
  new Counter<Label>({
    name,
    help,
    labelNames,
    registers: [registry],
    collect() {
      this.reset();
      for (const [labels, value] of read()) this.inc(labels, value);
    },
  });
}
