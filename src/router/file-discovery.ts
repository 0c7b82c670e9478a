/**
 * Reads the list of nodes from a JSON file, and reads it again whenever the file changes.
 *
 * The file is polled because it may be replaced by a rename or through the symbolic links of a ConfigMap, and a kernel watch
 * covers neither for certain. If the file cannot be used, the last list stays in force.
 */
import { readFile } from 'node:fs/promises';
import type { Logger } from 'pino';
import { messageOf } from '../base/errors.js';
import { StartError } from '../base/listening/socket-path.js';
import { Periodic } from '../base/periodic.js';
import { type Clock, type NodeEntry, type NodeSource, parseNodeList } from './node-list.js';

const POLL_MS = 1000;

export class FileDiscovery implements NodeSource {
  completeSince: number | null = null;
  readonly knowsRetired = true;
  #polls: Periodic | null = null;
  /** The text of the last list. */
  #text: string | null = null;
  /** Why the file could not be used at the last poll; null if it was used. */
  #problem: string | null = null;

  constructor(
    private readonly path: string,
    private readonly log: Logger,
    private readonly now: Clock,
    private readonly pollMs = POLL_MS,
  ) {}

  get description(): string {
    return `the list ${this.path}`;
  }

  async start(listener: (nodes: readonly NodeEntry[]) => void): Promise<void> {
    try {
      await this.#read(listener);
    } catch (thrown) {
      throw new StartError(`cannot use the list of nodes ${this.path}: ${messageOf(thrown)}`);
    }
    this.#polls = new Periodic(this.pollMs, () => this.#poll(listener));
    this.#polls.start();
  }

  stop(): void {
    void this.#polls?.stop();
  }

  async #poll(listener: (nodes: readonly NodeEntry[]) => void): Promise<void> {
    try {
      await this.#read(listener);
      this.#problem = null;
    } catch (thrown) {
      this.completeSince = null;
      this.#report(messageOf(thrown));
    }
  }

  async #read(listener: (nodes: readonly NodeEntry[]) => void): Promise<void> {
    const text = await readFile(this.path, 'utf8');
    if (text !== this.#text) {
      const nodes = parseNodeList(text);
      this.#text = text;
      listener(nodes);
    }
    this.completeSince ??= this.now();
  }

  /** Reports each problem once, because the file may be wrong for days. */
  #report(problem: string): void {
    if (problem === this.#problem) return;
    this.#problem = problem;
    this.log.error(
      { problem },
      `the list of nodes ${this.path} cannot be used; the last one stays in force. Correct the file`,
    );
  }
}
