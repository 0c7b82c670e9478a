/** A Prometheus of its own that scrapes its targets every second, and its query API. */
import { type ChildProcess, spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { packagePath } from '../../src/base/package-root.js';
import { end } from './child-processes.js';

/** Far longer than scrapes take on any machine: a figure that is not there by then never comes. */
const LIMIT_MS = 120_000;

export interface Series {
  metric: Record<string, string>;
  value: number;
}

export class PrometheusServer {
  private constructor(
    private readonly process: ChildProcess,
    private readonly address: string,
  ) {}

  /**
   * @param directory for its configuration and data
   * @param target what to scrape: host:port
   */
  static async start(program: string, directory: string, target: string): Promise<PrometheusServer> {
    const file = join(directory, 'prometheus.yaml');
    const config = {
      global: { scrape_interval: '1s', evaluation_interval: '1s' },
      rule_files: [packagePath('deploy/helm/blockdelta/files/alerts.yaml')],
      scrape_configs: [{ job_name: 'blockdelta', static_configs: [{ targets: [target] }] }],
    };
    // JSON is YAML.
    writeFileSync(file, JSON.stringify(config));
    const child = spawn(
      program,
      [`--config.file=${file}`, `--storage.tsdb.path=${join(directory, 'data')}`, '--web.listen-address=127.0.0.1:0'],
      { stdio: ['ignore', 'ignore', 'pipe'], cwd: directory },
    );
    let log = '';
    child.stderr?.on('data', (chunk: Buffer) => {
      log += chunk.toString();
    });
    for (;;) {
      const [, address] = /msg="Listening on" address=(\S+)/.exec(log) ?? [];
      if (address !== undefined) return new PrometheusServer(child, address);
      if (child.exitCode !== null) throw new Error(`prometheus has ended: ${log}`);
      await delay(50);
    }
  }

  /** The current value of each series that the expression yields. Throws if it is no valid expression. */
  async query(expression: string): Promise<Series[]> {
    const url = `http://${this.address}/api/v1/query`;
    const body = new URLSearchParams({ query: expression });
    const response = await fetch(url, { method: 'POST', body });
    const { status, error, data } = (await response.json()) as {
      status: string;
      error?: string;
      data: {
        resultType: string;
        result: { metric: Record<string, string>; value: [number, string] }[];
      };
    };
    if (status !== 'success') throw new Error(`${expression}: ${error}`);
    return data.result.map(({ metric, value }) => ({ metric, value: Number(value[1]) }));
  }

  /** Queries until the answer is as it should be, which takes a scrape or two. */
  async queryUntil(expression: string, holds: (found: Series[]) => boolean): Promise<Series[]> {
    const deadline = Date.now() + LIMIT_MS;
    for (;;) {
      const found = await this.query(expression);
      if (holds(found)) return found;
      if (Date.now() > deadline) throw new Error(`${expression}: ${JSON.stringify(found)}`);
      await delay(200);
    }
  }

  async stop(): Promise<void> {
    await end(this.process, 'SIGTERM');
  }
}
