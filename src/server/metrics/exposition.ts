/**
 * The text of /metrics. One collection runs at a time, however many clients ask. Its text serves every request that arrives
 * while the collection runs or soon after.
 */
import { setImmediate } from 'node:timers/promises';
import type { Registry } from 'prom-client';

/** Updates metrics before they are read. A source bounds its own time and reports its own failures. */
export type Source = () => Promise<void>;

/** A text up to this age is served again. Prometheus asks less often. */
const FRESH_MS = 1000;

export class Exposition {
  readonly #sources: Source[] = [];
  #last: { text: Buffer; at: number } | null = null;
  #collecting: Promise<Buffer> | null = null;

  constructor(
    private readonly registry: Registry,
    private readonly freshMs = FRESH_MS,
  ) {}

  get contentType(): string {
    return this.registry.contentType;
  }

  add(source: Source): void {
    this.#sources.push(source);
  }

  /** The buffer is shared with other callers and must not be modified. */
  text(): Promise<Buffer> {
    if (this.#last !== null && performance.now() - this.#last.at < this.freshMs) {
      return Promise.resolve(this.#last.text);
    }
    this.#collecting ??= this.#collect().finally(() => {
      this.#collecting = null;
    });
    return this.#collecting;
  }

  async #collect(): Promise<Buffer> {
    await Promise.all(this.#sources.map((source) => source()));
    const text = Buffer.from(await this.#print());
    this.#last = { text, at: performance.now() };
    return text;
  }

  /** Prints one metric at a time and lets other work run in between, because the metrics of many volumes are long. */
  async #print(): Promise<string> {
    const texts: string[] = [];
    for (const { name } of this.registry.getMetricsAsArray()) {
      texts.push(await this.registry.getSingleMetricAsString(name));
      await setImmediate();
    }
    return `${texts.join('\n\n')}\n`;
  }
}
