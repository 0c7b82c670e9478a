/**
 * The text of /metrics. However many clients ask, one collection runs at a time, and its text serves
 * everybody who asks while it runs or soon after it.
 */
import { setImmediate } from 'node:timers/promises';
import type { Registry } from 'prom-client';

/** Updates metrics before they are read. Bounds its own time; a failure is its own to report. */
export type Source = () => Promise<void>;

/** A text of this age is served again. Prometheus asks less often. */
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

  /** Metric by metric, and other work runs between them: metrics of many volumes are long. */
  async #print(): Promise<string> {
    const texts: string[] = [];
    for (const { name } of this.registry.getMetricsAsArray()) {
      texts.push(await this.registry.getSingleMetricAsString(name));
      await setImmediate();
    }
    return `${texts.join('\n\n')}\n`;
  }
}
