/** Reads figures from a text of /metrics. */
import assert from 'node:assert/strict';

type Labels = Readonly<Record<string, string>>;

interface Sample {
  name: string;
  labels: Labels;
  value: number;
}

export class MetricsText {
  readonly samples: readonly Sample[];

  constructor(text: string) {
    const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
    this.samples = lines.map((line) => {
      const [, name = '', labels = '', value = ''] = /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line) ?? [];
      const pairs = [...labels.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)];
      assert.notEqual(name, '', `not a sample: ${line}`);
      return {
        name,
        labels: Object.fromEntries(pairs.map(([, key = '', text = '']) => [key, text])),
        value: Number(value),
      };
    });
  }

  /** The sum of all samples with this name and at least these labels; undefined if there is none. */
  value(name: string, labels: Labels = {}): number | undefined {
    const found = this.samples.filter(
      (sample) => sample.name === name && Object.entries(labels).every(([key, value]) => sample.labels[key] === value),
    );
    return found.length === 0 ? undefined : found.reduce((sum, { value }) => sum + value, 0);
  }

  /** The values that a label of this metric has. */
  labelValues(name: string, label: string): string[] {
    const named = this.samples.filter((sample) => sample.name === name);
    return [...new Set(named.map(({ labels }) => labels[label] ?? ''))].sort();
  }
}

/** GET of a page of the listener. */
export async function scrape(url: string): Promise<MetricsText> {
  const response = await fetch(url);
  assert.equal(response.status, 200, url);
  return new MetricsText(await response.text());
}
